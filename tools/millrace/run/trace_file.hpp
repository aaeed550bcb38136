#pragma once

#include <string>

namespace millrace::cli {

/**
 * @brief Makes room for a trace that the program will write: a trace that was there before is
 *        removed. "%p" in the name is the process's number, and then nothing is removed.
 * @return the absolute path: the program may change its folder
 * @throws UsageError if the file is there and is not a trace of Millrace's, or cannot be written
 */
[[nodiscard]] std::string place_for_trace(const std::string& file);
/** @brief The same for a snapshot for PyTorch's viewer. */
[[nodiscard]] std::string place_for_snapshot(const std::string& file);

/** @brief The same for a report as JSON, whose name ends with .json. */
[[nodiscard]] std::string place_for_report(const std::string& file);

}  // namespace millrace::cli
