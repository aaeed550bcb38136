#pragma once

namespace millrace::interpose {

/**
 * @brief Directs Millrace's own calls to the runtime `library`, a handle of dlopen.
 * @return whether the runtime has all functions that these calls need
 */
bool fill_trampolines(void* library) noexcept;

}  // namespace millrace::interpose
