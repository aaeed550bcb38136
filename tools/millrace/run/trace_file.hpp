#pragma once

#include <string>

namespace millrace::cli {

/**
 * @brief Prepares the file of a trace that the program will write. An existing trace is removed. If
 *        the name contains "%p", which stands for the process number, nothing is removed.
 * @return the absolute path, because the program may change its working directory
 * @throws UsageError if the file exists and is not a trace in Millrace's format, or if it cannot be
 *         written
 */
[[nodiscard]] std::string place_for_trace(const std::string& file);
/** @brief The same for a snapshot in PyTorch's format. */
[[nodiscard]] std::string place_for_snapshot(const std::string& file);

/** @brief The same for a JSON report. Its name must end with ".json". */
[[nodiscard]] std::string place_for_report(const std::string& file);

}  // namespace millrace::cli
