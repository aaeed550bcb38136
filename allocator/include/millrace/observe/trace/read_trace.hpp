#pragma once

#include <filesystem>
#include <string>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

/**
 * @brief Reads an allocation trace in any format of TraceFormat, plain or gzip. The format is
 *        detected from the contents, not from the name.
 *
 * These are errors, reported with the line, byte or path of keys: a truncated file; a block that is
 * freed twice, freed without having been allocated, or allocated over a block in use; negative
 * sizes; and everything that `limits` forbids. A PyTorch snapshot is a window on a longer run and
 * may contradict itself. There such findings are warnings: the doubtful event is left out and the
 * rest is read.
 *
 * @throws ParseError if the file cannot be read, has an unknown format, or is malformed
 */
[[nodiscard]] AllocationLog read_trace(const std::filesystem::path& file,
                                       const TraceLimits& limits = {});

/**
 * @brief Like read_trace, for a file in memory.
 * @param bytes   the whole file
 * @param source  name of the file, for messages
 */
[[nodiscard]] AllocationLog parse_trace(std::string bytes, const std::string& source,
                                        const TraceLimits& limits = {});

/** @brief The formats of TraceFormat in words, separated by commas, for help and messages. */
[[nodiscard]] std::string trace_formats();

}  // namespace millrace::trace
