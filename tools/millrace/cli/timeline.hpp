#pragma once

#include "cli/output.hpp"
#include "millrace/observe/timeline.hpp"

namespace millrace::cli {

/** @brief Once stopped. @throws UsageError if there is no room */
void write_timeline(const Timeline& timeline, const Output& output);

}  // namespace millrace::cli
