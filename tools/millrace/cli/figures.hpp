#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "millrace/device/operation.hpp"
#include "millrace/memory/out_of_memory.hpp"

namespace millrace::cli {

/** @brief By linear interpolation between the two nearest. @param values  at least one */
[[nodiscard]] double percentile(std::vector<double> values, double share);

/** @brief Of an even number the lower one, so that what is less in each is less in the median. */
template <typename Value>
[[nodiscard]] Value median(std::vector<Value> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

[[nodiscard]] constexpr double milliseconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}
[[nodiscard]] constexpr double microseconds(Nanoseconds time) {
  return static_cast<double>(time.count()) / 1e3;
}

/** @brief Who asked for how much, and what there was, in a line. */
[[nodiscard]] std::string describe(const out_of_memory& error);

}  // namespace millrace::cli
