#include "model/cuda/current_device.hpp"

#include <cuda_runtime_api.h>

#include "model/cuda/require.hpp"

namespace millrace::model::cuda {

CurrentDevice::CurrentDevice(int ordinal) {
  require(cudaGetDevice(&before_), "cudaGetDevice");
  require(cudaSetDevice(ordinal), "cudaSetDevice");
}

CurrentDevice::~CurrentDevice() {
  if (cudaSetDevice(before_) != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace millrace::model::cuda
