#pragma once

namespace millrace::virtual_cuda {

/** @brief Handler for on_exit. A program that would exit with 0 although races were found exits
 * with kExitWithRaces instead, after its own destructors. */
void keep_status(int status, void*) noexcept;

inline constexpr int kExitWithRaces = 4;

}  // namespace millrace::virtual_cuda
