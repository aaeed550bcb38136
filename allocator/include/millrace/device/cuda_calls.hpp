#pragma once

/// @file
/// For code that calls CUDA directly and also uses a CudaDevice. No CUDA header is needed.

namespace millrace {

/**
 * @brief Makes a GPU the calling thread's current GPU while this object lives.
 *
 * Uses the primary context of that GPU and creates no context on another GPU. cudaSetDevice would
 * also create one on the previous GPU when it is restored, which takes a few hundred MiB there.
 */
class CurrentGpu {
 public:
  /** @throws DeviceError if the GPU does not exist or is lost */
  explicit CurrentGpu(int ordinal);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  void* previous_ = nullptr;  ///< a CUcontext
  bool changed_ = false;
};

/**
 * @brief Clears the CUDA runtime's error of this thread and throws `error` as a DeviceError.
 * @param error  a cudaError_t other than cudaSuccess
 * @param call   name of the call that failed, for the message
 * @throws DeviceError with the same code as from CudaDevice; it is `sticky()` if the GPU is lost
 */
[[noreturn]] void throw_cuda_error(int error, const char* call);

/** @throws DeviceError as `throw_cuda_error`, unless `result` is success */
template <typename Result>
void check_cuda(Result result, const char* call) {
  if (result == Result{}) [[likely]]
    return;
  throw_cuda_error(static_cast<int>(result), call);
}

}  // namespace millrace
