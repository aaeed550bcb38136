#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/pipeline/kernels/host_device.hpp"

/// @file
/// The layout of captured rows in a slot, for kernels and for the host.
///
///     CaptureHeader
///     starts  4 bytes each: the index of each table's first id, and the end
///     ids     ascending, 4 or 8 bytes each
///     for each table: the weights of its rows, then their states (for each row the first moment,
///         then the second)
///
/// Ids begin at a multiple of 16 bytes, and so do the values of each table and each part of them. A
/// slot contains little besides the changed rows, so one copy brings all of it.

namespace millrace::capture {

/** @brief A table of a source: the place and the contents of its rows. In device memory. */
struct SourceTable {
  std::int64_t first_row = 0, rows = 0;
  /** Index of the table's first float in each array of all tables. */
  std::int64_t weights = 0, first_moment = 0, second_moment = 0;
  std::int32_t width = 0, first_moment_width = 0, second_moment_width = 0;
  std::int32_t skipped = 0;

  /** @param row  row id, counted through all tables */
  [[nodiscard]] MILLRACE_HOST_DEVICE bool has(std::uint64_t row) const {
    const auto first = static_cast<std::uint64_t>(first_row);
    return row >= first && row - first < static_cast<std::uint64_t>(rows);
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t state() const {
    return static_cast<std::size_t>(first_moment_width) +
           static_cast<std::size_t>(second_moment_width);
  }
};

struct CaptureHeader {
  std::uint32_t rows = 0;
  std::uint32_t tables = 0;
  std::uint64_t bytes = 0;       ///< bytes of the contents, including the header
  std::uint64_t overflowed = 0;  ///< rows without room in the slot, which are dirty
  std::uint64_t skipped = 0;     ///< rows of tables that are skipped
  std::uint64_t missing = 0;     ///< rows that are dirty after this gather
  std::uint64_t unused = 0;
};
static_assert(sizeof(CaptureHeader) % 16 == 0);

/** @brief Settings that are the same for every gather. */
struct GatherShape {
  std::size_t slot_width = 0;           ///< width of a cache's slots
  std::size_t capacity = 0;             ///< bytes of the slot
  std::int32_t moment_of_row = 0;       ///< 1: a cache's slots have one first moment for each row
  std::int32_t weights = 0, state = 0;  ///< 1: delivered

  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t width_of(const SourceTable& table) const {
    return weights != 0 && table.skipped == 0 ? static_cast<std::size_t>(table.width) : 0;
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::size_t state_of(const SourceTable& table) const {
    return state != 0 && table.skipped == 0 ? table.state() : 0;
  }
};

[[nodiscard]] MILLRACE_HOST_DEVICE constexpr std::size_t rounded(std::size_t size, std::size_t to) {
  return (size + to - 1) / to * to;
}

/** @brief Returns the floats that rows of a table take, including rounding. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::size_t floats_of(std::size_t rows,
                                                                const SourceTable& table,
                                                                const GatherShape& shape) {
  return rounded(rows * shape.width_of(table), 4) + rounded(rows * shape.state_of(table), 4);
}

[[nodiscard]] MILLRACE_HOST_DEVICE constexpr std::size_t ids_begin(std::size_t tables) {
  return sizeof(CaptureHeader) + rounded((tables + 1) * sizeof(std::uint32_t), 16);
}
[[nodiscard]] MILLRACE_HOST_DEVICE constexpr std::size_t numbers_begin(std::size_t tables,
                                                                       std::size_t rows,
                                                                       std::size_t id_bytes) {
  return ids_begin(tables) + rounded(rows * id_bytes, 16);
}

/**
 * @brief Returns the bytes of a slot that are left for ids and values, without the rounding of ids.
 */
[[nodiscard]] MILLRACE_HOST_DEVICE constexpr std::size_t budget(std::size_t capacity,
                                                                std::size_t tables) {
  const std::size_t taken = ids_begin(tables) + 16;
  return capacity > taken ? capacity - taken : 0;
}

/** @brief Returns the bytes that rows of a table take. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::size_t bytes_of(std::size_t rows,
                                                               const SourceTable& table,
                                                               const GatherShape& shape,
                                                               std::size_t id_bytes) {
  return table.skipped != 0 ? 0 : rows * id_bytes + sizeof(float) * floats_of(rows, table, shape);
}

/** @brief Returns the number of rows that fit: all rows, or as many as fit with any rounding. */
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::size_t rows_that_fit(std::size_t rows,
                                                                    std::size_t left,
                                                                    const SourceTable& table,
                                                                    const GatherShape& shape,
                                                                    std::size_t id_bytes) {
  if (bytes_of(rows, table, shape, id_bytes) <= left) return rows;
  const std::size_t roundings = 6 * sizeof(float);
  const std::size_t row =
      id_bytes + sizeof(float) * (shape.width_of(table) + shape.state_of(table));
  return left > roundings ? (left - roundings) / row : 0;
}

/** @brief Counts of the dirty rows of a source. In device memory. */
struct DirtyCounts {
  unsigned long long rows = 0;      ///< bits that are set
  unsigned long long position = 0;  ///< the bit at which the next collection begins
  unsigned int blocks_done = 0;     ///< blocks of a gather that are done
  unsigned int unused = 0;
};

/** @brief The mapping of rows to bits: a bit stands for 2^shift rows. */
struct BitShape {
  std::uint64_t rows = 0;
  std::uint32_t shift = 0;

  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t bits() const {
    return (rows + (std::uint64_t{1} << shift) - 1) >> shift;
  }
  [[nodiscard]] MILLRACE_HOST_DEVICE std::uint64_t words() const { return (bits() + 31) / 32; }
};

inline constexpr std::size_t kChunkWords = 256;  ///< words of a bitmap that are counted together
[[nodiscard]] MILLRACE_HOST_DEVICE inline std::size_t chunks_of(const BitShape& shape) {
  return static_cast<std::size_t>((shape.words() + kChunkWords - 1) / kChunkWords);
}
/** @brief Returns the size of the scratch memory of a collection, in 4-byte numbers. */
[[nodiscard]] inline std::size_t collect_scratch(const BitShape& shape) {
  return chunks_of(shape) + 6;
}

}  // namespace millrace::capture
