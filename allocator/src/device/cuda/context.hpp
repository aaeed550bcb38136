#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "device/cuda/driver.hpp"
#include "device/cuda/error.hpp"

namespace millrace::cuda {

/** @throws DeviceError that says which devices there are, or why there is none */
void check_ordinal(int ordinal);

/** @brief The primary context of a device. Kept until the process ends: others hold its handles. */
[[nodiscard]] CUcontext primary_context(int ordinal);

/**
 * @brief Makes a context current for as long as this lives.
 *
 * Asks the driver and not the runtime: restoring by cudaSetDevice would give the thread's former
 * device a context that it may never have had.
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
 * What is done under it belongs to no capture: in the other modes cudaMalloc or a query would fail
 * and break a capture that a stranger has begun.
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
