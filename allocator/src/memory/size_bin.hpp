#pragma once

#include <bit>
#include <cstddef>

namespace millrace {

/** @brief A range of sizes: a row for each power of two, parted into columns of equal width. */
struct SizeBin {
  static constexpr unsigned kColumnBits = 5;
  static constexpr std::size_t kColumns = std::size_t{1} << kColumnBits;

  unsigned row, column;

  /** @brief The bin of a size. Smaller sizes than `kColumns` share the first row. */
  static SizeBin of(std::size_t bytes) noexcept {
    const auto row = static_cast<unsigned>(std::bit_width(bytes | kColumns)) - 1;
    return {row, static_cast<unsigned>((bytes >> (row - kColumnBits)) & (kColumns - 1))};
  }
};

}  // namespace millrace
