#pragma once

namespace millrace::virtual_cuda {

/**
 * @brief The driver's function of this name, as cudaGetDriverEntryPoint gives it; null if the
 *        virtual runtime has none. The functions are not exported.
 */
[[nodiscard]] void* find_driver_function(const char* name) noexcept;

}  // namespace millrace::virtual_cuda
