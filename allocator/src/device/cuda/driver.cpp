#include "device/cuda/driver.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "device/cuda/error.hpp"

namespace millrace::cuda {
namespace {

cudaError_t find(const char* name, unsigned version, void** entry,
                 cudaDriverEntryPointQueryResult* found) {
#if CUDART_VERSION >= 12050
  return cudaGetDriverEntryPointByVersion(name, entry, version, cudaEnableDefault, found);
#else
  static_cast<void>(version);  // this call returns the newest version that the toolkit knows; none
                               // has changed by 12.4
  return cudaGetDriverEntryPoint(name, entry, cudaEnableDefault, found);
#endif
}

template <typename Function>
void look_up(Function& function, const char* name, unsigned version) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(find(name, version, &entry, &found), "cudaGetDriverEntryPoint", name);
  if (found != cudaDriverEntryPointSuccess || entry == nullptr) {
    throw DeviceError{ErrorCode::not_supported, written("cudaGetDriverEntryPoint", name),
                      "the driver has no such entry point; a newer driver is needed"};
  }
  function = reinterpret_cast<Function>(entry);
}

Driver look_up_all() {
  Driver d;
  look_up(d.cuGetErrorName, "cuGetErrorName", 6000);
  look_up(d.cuGetErrorString, "cuGetErrorString", 6000);
  look_up(d.cuInit, "cuInit", 2000);
  look_up(d.cuDeviceGet, "cuDeviceGet", 2000);
  look_up(d.cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000);
  look_up(d.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000);
  look_up(d.cuCtxGetCurrent, "cuCtxGetCurrent", 4000);
  look_up(d.cuCtxSetCurrent, "cuCtxSetCurrent", 4000);
  look_up(d.cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020);
  look_up(d.cuMemAddressReserve, "cuMemAddressReserve", 10020);
  look_up(d.cuMemAddressFree, "cuMemAddressFree", 10020);
  look_up(d.cuMemCreate, "cuMemCreate", 10020);
  look_up(d.cuMemRelease, "cuMemRelease", 10020);
  look_up(d.cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000);
  look_up(d.cuMemMap, "cuMemMap", 10020);
  look_up(d.cuMemUnmap, "cuMemUnmap", 10020);
  look_up(d.cuMemSetAccess, "cuMemSetAccess", 10020);
  if (const CUresult result = d.cuInit(0); result != CUDA_SUCCESS) {
    throw DeviceError{classify(result), "cuInit(0)",
                      "CUDA driver error " + std::to_string(static_cast<int>(result))};
  }
  return d;
}

}  // namespace

const Driver& driver() {
  static const Driver found = look_up_all();
  return found;
}

}  // namespace millrace::cuda
