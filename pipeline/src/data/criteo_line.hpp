#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace millrace {

inline constexpr std::size_t kCriteoIntegers = 13;
inline constexpr std::size_t kCriteoCategories = 26;

struct CriteoRow {
  float label = 0;
  std::array<float, kCriteoIntegers> dense{};
  std::array<std::int64_t, kCriteoCategories> ids{};  ///< -1: no id
};

/** @brief Parses a line. @return why the line is malformed; "" if it is not */
[[nodiscard]] std::string parse_criteo_line(std::string_view line,
                                            std::span<const std::size_t> rows, CriteoRow& row);

}  // namespace millrace
