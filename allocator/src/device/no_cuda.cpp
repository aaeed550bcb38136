#include "millrace/config.hpp"
#include "millrace/device/cuda_calls.hpp"
#include "millrace/device/cuda_device.hpp"

#if !MILLRACE_HAS_CUDA

namespace millrace {
namespace {

constexpr const char* kReason =
    "this build has no CUDA; install a CUDA toolkit (12.0 or newer, nvcc on the PATH) and build "
    "again";

}  // namespace

CudaDeviceCount cuda_device_count() { return {0, kReason}; }

CudaVersions cuda_versions() noexcept { return {}; }

std::vector<int> cuda_architectures() { return {}; }

CudaDeviceInfo cuda_device_info(int ordinal) {
  throw DeviceError{ErrorCode::not_supported, "cuda:" + std::to_string(ordinal), kReason};
}

CudaDeviceState cuda_device_state(int ordinal) {
  throw DeviceError{ErrorCode::not_supported, "cuda:" + std::to_string(ordinal), kReason};
}

bool cuda_peer_access(int from, int to) {
  throw DeviceError{ErrorCode::not_supported,
                    "cuda:" + std::to_string(from) + " to cuda:" + std::to_string(to), kReason};
}

std::unique_ptr<CudaDevice> CudaDevice::create(int ordinal) { return create(ordinal, {}); }

std::unique_ptr<CudaDevice> CudaDevice::create(int ordinal, const Options&) {
  throw DeviceError{ErrorCode::not_supported, "cuda:" + std::to_string(ordinal), kReason};
}

CurrentGpu::CurrentGpu(int ordinal) {
  throw DeviceError{ErrorCode::not_supported, "cuda:" + std::to_string(ordinal), kReason};
}

CurrentGpu::~CurrentGpu() = default;

void throw_cuda_error(int error, const char* call) {
  throw DeviceError{ErrorCode::not_supported, call,
                    "CUDA error " + std::to_string(error) + "; " + kReason};
}

}  // namespace millrace

#endif
