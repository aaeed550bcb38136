#pragma once

#include <string>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::cli {

/**
 * @brief Reads an allocation trace.
 * @throws UsageError that lists the supported formats, if the file is refused
 */
[[nodiscard]] trace::AllocationLog read_log(const std::string& file);

}  // namespace millrace::cli
