#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// Arguments of the embedding kernels, the same on the host and on a GPU.

namespace millrace::model {

/** @brief The lookup of one feature in its table. Device memory has one for each feature. */
struct Lookup {
  std::int64_t weights = 0;  ///< first scalar of its table
  /** First row of its table; rows of all tables are numbered consecutively. */
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< rows of its table
  std::int32_t width = 0;
  std::int32_t column = 0;  ///< first column of its pooled rows
  std::int32_t mean = 0;    ///< 1: mean; 0: sum
  std::int32_t table = 0;
};

/** @brief The first id that was out of range. All bytes 0xFF: no id was. */
struct BadId {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  unsigned long long position = kNone;  ///< position in the batch's values
  std::uint64_t lookup = kNone;
  std::int64_t value = -1;
};

}  // namespace millrace::model
