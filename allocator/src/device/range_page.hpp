#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace millrace {

/**
 * @brief Returns the page size of growable ranges, in bytes. Mapping costs time for each page, so
 *        pages are as large as possible while rounding up to pages is small compared with the
 *        device.
 * @param granularity  smallest page of the driver, in bytes; a power of two
 * @param memory       the device's memory, in bytes
 */
[[nodiscard]] constexpr std::size_t range_page(std::size_t granularity,
                                               std::size_t memory) noexcept {
  constexpr std::size_t kMost = std::size_t{32} << 20;
  constexpr std::size_t kPagesPerDevice = 1024;
  const std::size_t share = std::max<std::size_t>(memory / kPagesPerDevice, 1);
  return std::max(granularity, std::min(kMost, std::bit_floor(share)));
}

}  // namespace millrace
