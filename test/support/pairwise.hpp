#pragma once

#include <cstddef>
#include <vector>

namespace millrace::test {

/// Rows with one value of each option, so few that not every combination is among them, but each
/// pair of values of any two options is in at least one row.
/// @param options  how many values each has
[[nodiscard]] std::vector<std::vector<std::size_t>> pairwise(
    const std::vector<std::size_t>& options);

}  // namespace millrace::test
