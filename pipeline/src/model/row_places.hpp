#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/host_device.hpp"
#include "millrace/pipeline/kernels/row_storage.hpp"
#include "model/lookup.hpp"

/// @file
/// The layout of cached tables, for kernels on the host and on a GPU.
///
/// Rows of all tables are numbered consecutively, and each belongs to one set of `kWays` slots. The
/// tag of a slot names its row, its state says when the row was used. Weights and optimizer state
/// of a row are at its slot, and in host memory at the same place as in tables without a cache.

namespace millrace::model {

inline constexpr unsigned kWays = 32;
inline constexpr std::uint32_t kNoTag = ~std::uint32_t{0};

/** @brief Rows with the same remainder share a set. The quotient is the tag. */
struct CacheShape {
  std::uint64_t sets = 1;
  std::uint64_t of_set = 0;  ///< maximum number of rows that share a set

  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t set_of(std::uint64_t row) const {
    return row % sets;
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint32_t tag_of(std::uint64_t row) const {
    return static_cast<std::uint32_t>(row / sets);
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t row_of(std::uint64_t set,
                                                          std::uint32_t tag) const {
    return tag * sets + set;
  }
  /**
   * @brief Returns a key that sorts rows set by set; `set_of_key` and `tag_of_key` are its inverse.
   */
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t key_of(std::uint64_t row) const {
    return set_of(row) * of_set + tag_of(row);
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t set_of_key(std::uint64_t key) const {
    return key / of_set;
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint32_t tag_of_key(std::uint64_t key) const {
    return static_cast<std::uint32_t>(key % of_set);
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t keys() const { return sets * of_set; }
};

/** @brief The layout of rows at slots and in host memory. */
struct RowLayout {
  std::size_t width = 0;       ///< width of a slot: that of the widest row
  bool moment_of_row = false;  ///< one first moment per row, otherwise one per weight

  [[nodiscard]] MILLRACE_HOST_DEVICE RowPlace at_slot(std::size_t slot) const {
    return {slot * width, moment_of_row ? slot : slot * width};
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE RowPlace at_home(const Lookup& table, std::int64_t row) const {
    const auto at = static_cast<std::size_t>(table.weights + (row - table.first_row) * table.width);
    return {at, moment_of_row ? static_cast<std::size_t>(row) : at};
  }
};

struct SlotState {
  std::uint64_t stamp = 0;  ///< the last prefetch whose batch has the row
  std::uint32_t uses = 0;   ///< number of prefetches that found or brought the row
  std::uint32_t dirty = 0;  ///< 1: newer than the row in host memory
};

/** @brief The number of a prefetch, from 1, and its rule for evictions. */
struct Turn {
  std::uint64_t stamp = 0;
  std::uint64_t held_from = 0;  ///< slots with this stamp or a later one are not evicted
  bool least_used = false;      ///< evict the least used row, otherwise the least recent one
};

/** @brief The copies that a prefetch makes for a row that it brings. */
struct RowMove {
  std::int64_t row = -1;      ///< the row to bring; -1: none
  std::int64_t evicted = -1;  ///< the row to write back first; -1: none
  std::int64_t slot = 0;
};

/** @brief Returns the last feature whose table has this row. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline const Lookup& table_of(const Lookup* lookups,
                                                                 std::size_t count,
                                                                 std::int64_t row) {
  std::size_t first = 0;  // the last lookup whose table begins at or before the row
  while (count > 1) {
    const std::size_t half = count / 2;
    if (lookups[first + half].first_row <= row) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return lookups[first];
}

}  // namespace millrace::model
