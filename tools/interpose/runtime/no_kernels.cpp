// Stubs for the allocator's synthetic kernels, which `millrace run` never launches. They keep the
// allocator's device code out of this library. It would register kernels in every process.

#include "millrace/device/error.hpp"
#include "millrace/device/occupy.hpp"

namespace millrace::cuda {

Machine prepare_occupation(int, double, double) { return {}; }

std::vector<int> architectures() { return {}; }

int architecture_here() {
  throw DeviceError{ErrorCode::not_supported, "launch", "millrace run launches no kernels"};
}

void occupy(const Operation&, const Machine&, cudaStream_t) {
  throw DeviceError{ErrorCode::not_supported, "launch", "millrace run launches no kernels"};
}

}  // namespace millrace::cuda
