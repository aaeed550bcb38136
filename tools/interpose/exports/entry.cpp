#include "exports/entry.hpp"

namespace millrace::interpose {

int device_of(cudaStream_t stream) noexcept {
  const bool is_default =
      stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  if (is_default) return current_device();
  if (is_captured(stream)) return -1;  // a query for its device would end the capture
  int number = 0;
  if (real().cudaStreamGetDevice != nullptr)
    return real().cudaStreamGetDevice(stream, &number) == cudaSuccess ? number : -1;
  static const bool is_only = real().cudaGetDeviceCount(&number) == cudaSuccess && number == 1;
  return is_only ? 0 : -1;
}

bool is_captured(cudaStream_t stream) noexcept {
  const KeepsLastError keeps;
  cudaStreamCaptureStatus status{};
  const cudaError_t error = real().cudaStreamIsCapturing(stream, &status);
  return error != cudaSuccess || status != cudaStreamCaptureStatusNone;
}

cudaError_t synchronize_device(const Runtime& runtime, Gpu* gpu) {
  if (gpu == nullptr) return runtime.cudaDeviceSynchronize();
  cudaError_t error = cudaSuccess;
  gpu->synchronize([&] {
    error = runtime.cudaDeviceSynchronize();
    return error == cudaSuccess;
  });
  return error;
}

void settle(const Runtime& runtime, Process& process, Gpu& gpu) {
  if (process.capturing()) return;
  const std::vector<void*> later = gpu.take_later();
  if (later.empty()) return;
  const CurrentGpu current{gpu.ordinal()};
  const bool done = synchronize_device(runtime, &gpu) == cudaSuccess;
  for (void* const address : later) {
    if (done) {
      gpu.log().freed_completed(address);
      gpu.free_completed(address);
    } else {
      gpu.free_later(address);
    }
  }
}

}  // namespace millrace::interpose
