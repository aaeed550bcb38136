#pragma once

#include <bit>
#include <cstddef>

namespace millrace {

/** @brief A bin of sizes: a row for each power of two, divided into columns of equal width. */
struct SizeBin {
  static constexpr unsigned kColumnBits = 5;
  static constexpr std::size_t kColumns = std::size_t{1} << kColumnBits;

  unsigned row, column;

  /** @brief Returns the bin of a size. Sizes below `kColumns` are in the first row, too. */
  static SizeBin of(std::size_t bytes) noexcept {
    const auto row = static_cast<unsigned>(std::bit_width(bytes | kColumns)) - 1;
    return {row, static_cast<unsigned>((bytes >> (row - kColumnBits)) & (kColumns - 1))};
  }
};

}  // namespace millrace
