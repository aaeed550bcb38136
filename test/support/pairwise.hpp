#pragma once

#include <cstddef>
#include <vector>

namespace millrace::test {

/// Returns rows with one value of each option. Not every combination has a row, but each pair of
/// values of two options is in at least one row.
/// @param options  number of values of each option
[[nodiscard]] std::vector<std::vector<std::size_t>> pairwise(
    const std::vector<std::size_t>& options);

}  // namespace millrace::test
