#pragma once

#include <filesystem>
#include <string>

#include "millrace/observe/trace/limits.hpp"

namespace millrace::trace {

/** @throws ParseError if the file cannot be read or is larger than the limit */
[[nodiscard]] std::string read_bytes(const std::filesystem::path& file, const TraceLimits& limits);

/**
 * @brief Returns the bytes, decompressed if they are gzip (any number of members in a row).
 * @throws ParseError if the gzip is cut short or damaged, or inflates beyond the limit
 */
[[nodiscard]] std::string gunzip(std::string bytes, const std::string& source,
                                 const TraceLimits& limits);

}  // namespace millrace::trace
