#pragma once

namespace millrace::interpose {

/**
 * @brief Writes the report of this process, unless it was begun before.
 * @param ended_by  what ends the process: "SIGTERM", "_exit"; nullptr: it ends as programs do
 */
void report_once(const char* ended_by) noexcept;
[[nodiscard]] bool report_has_begun() noexcept;

}  // namespace millrace::interpose
