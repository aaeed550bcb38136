#pragma once

namespace millrace::interpose {

/**
 * @brief Writes the report of this process, unless it has already begun.
 * @param ended_by  cause of an early end, such as "SIGTERM" or "_exit"; nullptr for a normal end
 */
void report_once(const char* ended_by) noexcept;
[[nodiscard]] bool report_has_begun() noexcept;

}  // namespace millrace::interpose
