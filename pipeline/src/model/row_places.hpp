#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/host_device.hpp"
#include "millrace/pipeline/kernels/row_storage.hpp"
#include "model/lookup.hpp"

/// @file
/// How cached tables lie: what kernels are told, on the host and on a GPU alike.
///
/// A row, counted through all tables, belongs to one set of `kWays` slots. Of a slot the tags say
/// which row it holds, the states when that was used. Everything that a row has (weights, state of
/// the optimizer) lies at its slot, and at its place in host memory as in tables without a cache.

namespace millrace::model {

inline constexpr unsigned kWays = 32;
inline constexpr std::uint32_t kNoTag = ~std::uint32_t{0};

/** @brief Which rows share a set: those of equal remainder. The quotient is the tag. */
struct CacheShape {
  std::uint64_t sets = 1;
  std::uint64_t of_set = 0;  ///< rows that share a set, at most

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
  /** @brief A number for a row by which rows sort set by set, and back. */
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

/** @brief How rows lie, at slots and in host memory. */
struct RowLayout {
  std::size_t width = 0;       ///< of a slot: the widest row's
  bool moment_of_row = false;  ///< one first moment a row, otherwise as many as weights

  [[nodiscard]] MILLRACE_HOST_DEVICE RowPlace at_slot(std::size_t slot) const {
    return {slot * width, moment_of_row ? slot : slot * width};
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE RowPlace at_home(const Lookup& table, std::int64_t row) const {
    const auto at = static_cast<std::size_t>(table.weights + (row - table.first_row) * table.width);
    return {at, moment_of_row ? static_cast<std::size_t>(row) : at};
  }
};

struct SlotState {
  std::uint64_t stamp = 0;  ///< of the last prefetch whose batch has the row
  std::uint32_t uses = 0;   ///< prefetches that found or brought it
  std::uint32_t dirty = 0;  ///< it is newer than the row in host memory
};

/** @brief A prefetch's turn: prefetches are numbered from 1. */
struct Turn {
  std::uint64_t stamp = 0;
  std::uint64_t held_from = 0;  ///< slots of this stamp or a later one stay
  bool least_used = false;      ///< goes first, rather than the least recent
};

/** @brief What a prefetch has to move for a row that it brings. */
struct RowMove {
  std::int64_t row = -1;      ///< that comes; -1: nothing does
  std::int64_t evicted = -1;  ///< that is to be written back before; -1: none
  std::int64_t slot = 0;
};

/** @brief The last feature of the table that has this row. */
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
