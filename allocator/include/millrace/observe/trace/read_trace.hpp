#pragma once

#include <filesystem>
#include <string>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

/**
 * @brief Reads an allocation trace in any of the formats of TraceFormat, gzipped or not. The format
 * is told from the content, not from the name.
 *
 * Refused, with the line, byte or path of keys where it stands: what is cut short; a block that is
 * freed twice, or freed without having been allocated, or allocated over one in use; negative
 * sizes; and all that `limits` forbids. A PyTorch snapshot is a window on a longer run, and may
 * contradict itself: there such findings are warnings, the doubtful event is left out, and the rest
 * goes on.
 *
 * @throws ParseError if the file cannot be read, or is none of these, or is malformed
 */
[[nodiscard]] AllocationLog read_trace(const std::filesystem::path& file,
                                       const TraceLimits& limits = {});

/**
 * @brief As read_trace, of a file that is in memory.
 * @param source  its name, for messages
 */
[[nodiscard]] AllocationLog parse_trace(std::string bytes, const std::string& source,
                                        const TraceLimits& limits = {});

/** @brief The formats of TraceFormat in words, with commas between: for help and messages. */
[[nodiscard]] std::string trace_formats();

}  // namespace millrace::trace
