#pragma once

/// @file
/// For code that calls CUDA itself, beside a CudaDevice. No header of CUDA's is needed.

namespace millrace {

/**
 * @brief Makes a GPU the calling thread's current one for as long as this lives.
 *
 * Uses the GPU's primary context, and no other GPU gets one: cudaSetDevice would, of the device
 * that it sets back, which takes a few hundred MiB there.
 */
class CurrentGpu {
 public:
  /** @throws DeviceError if there is no such GPU, or it is lost */
  explicit CurrentGpu(int ordinal);
  ~CurrentGpu();
  CurrentGpu(const CurrentGpu&) = delete;
  CurrentGpu& operator=(const CurrentGpu&) = delete;

 private:
  void* previous_ = nullptr;  ///< a CUcontext
  bool changed_ = false;
};

/**
 * @brief Clears the thread's error of CUDA's runtime, and throws what an error means.
 * @param error  a cudaError_t that is not success
 * @throws DeviceError with the code that CudaDevice gives this error; so it is `sticky()` if the
 *         GPU is lost
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
