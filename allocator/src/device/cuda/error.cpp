#include "device/cuda/error.hpp"

#include "device/cuda/driver.hpp"

namespace millrace::cuda {

static_assert(cudaSuccess == cudaError_t{} && CUDA_SUCCESS == CUresult{});
static_assert(static_cast<int>(cudaErrorMemoryAllocation) == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(static_cast<int>(cudaErrorInvalidResourceHandle) == CUDA_ERROR_INVALID_HANDLE);
static_assert(static_cast<int>(cudaErrorIllegalAddress) == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(static_cast<int>(cudaErrorCudartUnloading) == CUDA_ERROR_DEINITIALIZED);
static_assert(static_cast<int>(cudaErrorStreamCaptureUnsupported) ==
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);

namespace {

// Not every toolkit that this compiles with defines these codes.
constexpr int kContained = 226;         // CUDA 12.8
constexpr int kTensorMemoryLeak = 721;  // CUDA 12.8

}  // namespace

ErrorCode classify(int error) noexcept {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return ErrorCode::out_of_memory;

    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidHostPointer:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorLaunchOutOfResources:
      return ErrorCode::invalid_argument;

    case cudaErrorNotPermitted:  // inside a host callback
    case cudaErrorNotSupported:
    case cudaErrorStubLibrary:
    case cudaErrorInsufficientDriver:
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorPeerAccessUnsupported:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorSymbolNotFound:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return ErrorCode::not_supported;

    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      return ErrorCode::capture;

    case cudaErrorInitializationError:  // also in a forked child
    case cudaErrorCudartUnloading:
    case cudaErrorDeviceUninitialized:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case kContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case kTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
      return ErrorCode::device_lost;

    default:
      return ErrorCode::unknown;
  }
}

std::string describe(cudaError_t error) {
  return std::string{cudaGetErrorString(error)} + " (" + cudaGetErrorName(error) + ")";
}

std::string describe(CUresult error) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver().cuGetErrorName(error, &name) != CUDA_SUCCESS ||
      driver().cuGetErrorString(error, &text) != CUDA_SUCCESS) {
    return "CUDA driver error " + std::to_string(static_cast<int>(error));
  }
  return std::string{text} + " (" + name + ")";
}

void fail(cudaError_t error, const std::string& call) {
  static_cast<void>(cudaGetLastError());
  throw DeviceError{classify(error), call, describe(error)};
}

void fail(CUresult error, const std::string& call) {
  throw DeviceError{classify(error), call, describe(error)};
}

}  // namespace millrace::cuda
