// Names of cublasStatus_t in the public headers, with descriptions after the documentation. The
// wording of the descriptions is ours.

#include "cublas/status.hpp"

namespace millrace::virtual_cublas {
namespace {

struct Text {
  const char* name;
  const char* description;
};

Text text_of(int status) noexcept {
  switch (status) {
    case 0:
      return {"CUBLAS_STATUS_SUCCESS", "the operation completed successfully"};
    case 1:
      return {"CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"};
    case 3:
      return {"CUBLAS_STATUS_ALLOC_FAILED", "a resource could not be allocated"};
    case 7:
      return {"CUBLAS_STATUS_INVALID_VALUE", "a parameter has an unsupported value"};
    case 8:
      return {"CUBLAS_STATUS_ARCH_MISMATCH", "the GPU's architecture lacks a required feature"};
    case 11:
      return {"CUBLAS_STATUS_MAPPING_ERROR", "an access to the GPU's memory failed"};
    case 13:
      return {"CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"};
    case 14:
      return {"CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"};
    case 15:
      return {"CUBLAS_STATUS_NOT_SUPPORTED", "the requested function is not supported"};
    case 16:
      return {"CUBLAS_STATUS_LICENSE_ERROR", "the license could not be checked"};
    default:
      return {"unknown status", "an unknown status"};
  }
}

}  // namespace

const char* name_of_status(int status) noexcept { return text_of(status).name; }
const char* text_of_status(int status) noexcept { return text_of(status).description; }

}  // namespace millrace::virtual_cublas
