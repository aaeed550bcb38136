#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "millrace/memory/out_of_memory.hpp"

namespace millrace::cli {

/**
 * @brief The value below which `share` of the values lie, interpolated between the nearest two.
 * @param values  at least one
 * @param share   from 0 to 1: 0.9 for P90
 */
[[nodiscard]] double percentile(std::vector<double> values, double share);

/**
 * @brief The middle value; for an even number of values, the lower of the two middle values.
 *
 * It is always one of the values. If each value of one series is less than the matching value of
 * another series, its median is also less.
 */
template <typename Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/** @brief One line: the stream, the size of the request, the reserved bytes and the free bytes. */
[[nodiscard]] std::string describe(const out_of_memory& error);

}  // namespace millrace::cli
