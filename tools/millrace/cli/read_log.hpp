#pragma once

#include <string>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::cli {

/**
 * @brief Reads an allocation trace.
 * @throws UsageError with the formats that are read, if the file is refused
 */
[[nodiscard]] trace::AllocationLog read_log(const std::string& file);

}  // namespace millrace::cli
