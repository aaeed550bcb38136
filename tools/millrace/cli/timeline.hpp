#pragma once

#include "cli/output.hpp"
#include "millrace/observe/timeline.hpp"

namespace millrace::cli {

/** @brief Writes a timeline that was stopped. @throws UsageError if the disk is full */
void write_timeline(const Timeline& timeline, const Output& output);

}  // namespace millrace::cli
