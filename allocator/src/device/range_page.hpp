#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace millrace {

/**
 * @brief The pages of growable ranges on a device of this much memory: mapping costs depend on the
 *        page, and what it rounds up to is small beside the device.
 * @param granularity  of the driver's memory: the least there can be; a power of two
 */
[[nodiscard]] constexpr std::size_t range_page(std::size_t granularity,
                                               std::size_t memory) noexcept {
  constexpr std::size_t kMost = std::size_t{32} << 20;
  constexpr std::size_t kPagesPerDevice = 1024;
  const std::size_t share = std::max<std::size_t>(memory / kPagesPerDevice, 1);
  return std::max(granularity, std::min(kMost, std::bit_floor(share)));
}

}  // namespace millrace
