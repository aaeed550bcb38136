#pragma once

namespace millrace::interpose {

/**
 * @brief Makes the runtime `library` (a handle of dlopen) that of Millrace's own calls.
 * @return whether it has all functions that they need
 */
bool fill_trampolines(void* library) noexcept;

}  // namespace millrace::interpose
