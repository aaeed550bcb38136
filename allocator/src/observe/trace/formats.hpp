#pragma once

#include <string>
#include <string_view>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/value_tree.hpp"

namespace millrace::trace {

class Csv;

/// @name One reader for each format; all throw ParseError
/// @{
[[nodiscard]] AllocationLog read_torch_log(const ValueTree& tree, const std::string& source);
[[nodiscard]] AllocationLog read_rmm_log(Csv& csv, const std::string& source);
[[nodiscard]] AllocationLog read_lifetimes(Csv& csv, const std::string& source);
/// @}

[[nodiscard]] bool is_rmm_log(const Csv& csv);
[[nodiscard]] bool is_lifetimes(const Csv& csv);

}  // namespace millrace::trace
