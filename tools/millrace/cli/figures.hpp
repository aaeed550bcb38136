#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "millrace/memory/out_of_memory.hpp"

namespace millrace::cli {

/**
 * @brief The value below which `share` of the values are, interpolated between the two nearest.
 * @param values  at least one
 * @param share   from 0 to 1: 0.9 for P90
 */
[[nodiscard]] double percentile(std::vector<double> values, double share);

/**
 * @brief The middle value; of an even number, the lower of the two in the middle.
 *
 * It is never a mean: if each value of one series is less than that of another, its median is less.
 */
template <typename Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/** @brief One line: the size and the stream of the request, and the memory that there was. */
[[nodiscard]] std::string describe(const out_of_memory& error);

}  // namespace millrace::cli
