#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "millrace/device/profile.hpp"

namespace millrace::profile {

enum class Dimension { bytes, bandwidth, rate, frequency, time, count, flag };

struct Unit {
  std::string_view name;
  Dimension dimension;
  double scale;  ///< factor to base units: bytes, bytes/s, operations/s, Hz, nanoseconds
};

[[nodiscard]] const Unit* find_unit(std::string_view name, Dimension dimension) noexcept;
[[nodiscard]] std::string unit_names(Dimension dimension);

/** @brief One figure of a profile: its key path in JSON, and how to get and set its member. */
struct Field {
  std::string path;
  Dimension dimension;
  bool may_be_zero;
  std::function<double(const DeviceProfile&)> get;
  std::function<void(DeviceProfile&, double)> set;
};

/** @brief Returns all figures, in the order in which they are written. */
[[nodiscard]] const std::vector<Field>& fields();

}  // namespace millrace::profile
