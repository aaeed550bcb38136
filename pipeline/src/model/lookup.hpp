#pragma once

#include <cstddef>
#include <cstdint>

/// @file
/// What the kernels of the embeddings are told, on the host and on a GPU alike.

namespace millrace::model {

/** @brief One feature's lookups in its table. F of them lie in device memory. */
struct Lookup {
  std::int64_t weights = 0;    ///< where its table begins, in scalars
  std::int64_t first_row = 0;  ///< of its table, rows of all tables counted through
  std::int64_t rows = 0;       ///< of its table
  std::int32_t width = 0;
  std::int32_t column = 0;  ///< of its pooled rows, in those of all features
  std::int32_t mean = 0;    ///< else sums
  std::int32_t table = 0;
};

/** @brief The first id out of range that was met. All bytes 0xFF: none was. */
struct BadId {
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  unsigned long long position = kNone;  ///< in the batch's values
  std::uint64_t lookup = kNone;
  std::int64_t value = -1;
};

}  // namespace millrace::model
