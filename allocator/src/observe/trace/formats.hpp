#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

class Csv;

/// @name One reader for each format; all throw ParseError
/// @{
/** @brief Refuses what is none of the formats, from the first bytes of a file as it lies there. */
void check_beginning(std::string_view bytes, const std::string& source);
[[nodiscard]] AllocationLog read_torch_log(ValueTree tree, const std::string& source);
/** @param most_memory  bytes that what is read may take, at most */
[[nodiscard]] AllocationLog read_rmm_log(Csv& csv, const std::string& source,
                                         std::uint64_t most_memory);
[[nodiscard]] AllocationLog read_lifetimes(Csv& csv, const std::string& source,
                                           std::uint64_t most_memory);
/// @}

[[nodiscard]] bool is_rmm_log(const Csv& csv);
[[nodiscard]] bool is_lifetimes(const Csv& csv);

}  // namespace millrace::trace
