#pragma once

namespace millrace::virtual_cublas {

/** @brief "CUBLAS_STATUS_SUCCESS", as the public headers name a cublasStatus_t. Never null. */
[[nodiscard]] const char* name_of_status(int status) noexcept;

/** @brief A description of the status. Never null. */
[[nodiscard]] const char* text_of_status(int status) noexcept;

}  // namespace millrace::virtual_cublas
