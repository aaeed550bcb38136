#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// Arguments of the embedding kernels, the same on the host and on a GPU.

namespace millrace::model {

/** @brief One feature's lookup in its table. Device memory has one of them for each feature. */
struct Lookup {
  std::int64_t weights = 0;    ///< first scalar of its table
  std::int64_t first_row = 0;  ///< of its table; rows of all tables are numbered consecutively
  std::int64_t rows = 0;       ///< of its table
  std::int32_t width = 0;
  std::int32_t column = 0;  ///< first column of its pooled rows
  std::int32_t mean = 0;    ///< 0: sums
  std::int32_t table = 0;
};

/** @brief The first id that was out of range. All bytes 0xFF: none was. */
struct BadId {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  unsigned long long position = kNone;  ///< in the batch's values
  std::uint64_t lookup = kNone;
  std::int64_t value = -1;
};

}  // namespace millrace::model
