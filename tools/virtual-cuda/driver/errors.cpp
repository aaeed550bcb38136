#include <cstdint>

#include "driver/entry.hpp"

extern "C" const char* cudaGetErrorString(cudaError_t error);

namespace millrace::virtual_cuda {
namespace {

enum Codes {
#define MILLRACE_DRIVER_ERROR(name, value) name = value,
#include "abi/driver_errors.def"
#undef MILLRACE_DRIVER_ERROR
};

const char* name_of(int code) noexcept {
  switch (code) {
#define MILLRACE_DRIVER_ERROR(name, value) \
  case value:                              \
    return #name;
#include "abi/driver_errors.def"
#undef MILLRACE_DRIVER_ERROR
    default:
      return nullptr;
  }
}

}  // namespace

CUresult to_driver(cudaError_t error) noexcept {
  if (error > 100 || name_of(error) != nullptr) {
    // Codes above 100 are the same, but the driver lacks some of them.
    return name_of(error) != nullptr ? error : static_cast<CUresult>(CUDA_ERROR_UNKNOWN);
  }
  switch (error) {
    case cudaErrorInvalidSymbol:
      return static_cast<CUresult>(CUDA_ERROR_NOT_FOUND);
    case cudaErrorInvalidDeviceFunction:
      return static_cast<CUresult>(CUDA_ERROR_INVALID_HANDLE);
    default:
      return static_cast<CUresult>(CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

namespace {

/** Programs may ask for texts in any state of the process, even at its end. */
CUresult text(CUresult code, const char** out, const char* found) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = name_of(code) == nullptr ? nullptr : found;
  return *out == nullptr ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace

MILLRACE_EXPORT CUresult cuGetErrorName(CUresult code, const char** name) {
  return text(code, name, name_of(code));
}
MILLRACE_EXPORT CUresult cuGetErrorString(CUresult code, const char** description) {
  return text(code, description, cudaGetErrorString(code));
}
