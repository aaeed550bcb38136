#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/cuda/driver.hpp"
#include "device/cuda/error.hpp"

namespace millrace::cuda {

/**
 * @throws DeviceError if the GPU does not exist; the message lists the GPUs, or says why none exist
 */
void check_ordinal(int ordinal);

/**
 * @brief Returns the GPU's primary context. It stays retained until the process ends, because other
 *        code has handles of it.
 */
[[nodiscard]] CUcontext primary_context(int ordinal);

/**
 * @brief Makes a context current while this object lives.
 *
 * Calls the driver and not the runtime: restoring with cudaSetDevice could create a context on the
 * thread's former device.
 */
class CurrentContext {
 public:
  explicit CurrentContext(CUcontext context) {
    if (driver().cuCtxGetCurrent(&previous_) == CUDA_SUCCESS && previous_ != context) {
      check(driver().cuCtxSetCurrent(context), "cuCtxSetCurrent", context);
      changed_ = true;
    }
  }
  ~CurrentContext() {
    if (changed_) driver().cuCtxSetCurrent(previous_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  CUcontext previous_ = nullptr;
  bool changed_ = false;
};

/**
 * @brief Lets the calling thread act at host time while another stream is being captured.
 *
 * Its calls then belong to no capture. In the other capture modes, cudaMalloc or a query would fail
 * and invalidate a capture that other code has begun.
 */
class OutsideCapture {
 public:
  OutsideCapture() noexcept { quietly(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~OutsideCapture() { quietly(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  OutsideCapture(const OutsideCapture&) = delete;
  OutsideCapture& operator=(const OutsideCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace millrace::cuda
