#pragma once

#include <string>

#include "millrace/observe/trace_record.hpp"

namespace millrace::cli {

/** @brief What an allocator did, as a file for `millrace replay` and `millrace explain`. */
[[nodiscard]] std::string render_trace(const AllocationTrace& trace, const RecordedMemory& memory);

}  // namespace millrace::cli
