#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <vector>

#include "capture/kernel_arguments.hpp"
#include "capture/layout.hpp"

/// @file
/// Host kernels of tracking and capture.

namespace millrace::capture::host {

inline void set_bit(std::span<std::uint32_t> bits, DirtyCounts& counts, std::uint64_t bit) {
  std::uint32_t& word = bits[bit / 32];
  const std::uint32_t mask = std::uint32_t{1} << (bit % 32);
  if ((word & mask) == 0) ++counts.rows;
  word |= mask;
}

template <typename Key>
void mark_rows(const MarkRowsArguments<Key>& arguments) {
  const auto& [dirty, rows, count] = arguments;
  const std::size_t size = std::min<std::size_t>(count[0], rows.size());
  for (std::size_t i = 0; i < size; ++i) {
    if (rows[i] < dirty.shape.rows) {
      set_bit(dirty.bits, dirty.counts[0], rows[i] >> dirty.shape.shift);
    }
  }
}

inline void mark_range(const MarkRangeArguments& arguments) {
  const auto& [dirty, first, end] = arguments;
  if (first == end) return;
  const std::uint64_t last = (end - 1) >> dirty.shape.shift;
  for (std::uint64_t bit = first >> dirty.shape.shift; bit <= last; ++bit) {
    set_bit(dirty.bits, dirty.counts[0], bit);
  }
}

template <typename Key>
void collect_rows(const CollectRowsArguments<Key>& arguments) {
  const std::span<Key> rows = arguments.rows;
  const auto& [bits, counts, shape] = arguments.dirty;
  const std::uint64_t of_bit = std::uint64_t{1} << shape.shift;
  std::size_t taken = 0;
  std::uint64_t next = 0;
  for (std::uint64_t bit = counts[0].position; bit < shape.bits(); ++bit) {
    if (bit % 32 == 0 && bits[bit / 32] == 0) {
      bit += 31;
      continue;
    }
    const std::uint32_t mask = std::uint32_t{1} << (bit % 32);
    if ((bits[bit / 32] & mask) == 0) continue;
    if (taken + of_bit > rows.size()) {
      next = bit;
      break;
    }
    bits[bit / 32] &= ~mask;
    --counts[0].rows;
    const std::uint64_t end = std::min((bit + 1) << shape.shift, shape.rows);
    for (std::uint64_t row = bit << shape.shift; row < end; ++row) {
      rows[taken++] = static_cast<Key>(row);
    }
  }
  counts[0].position = next;
  arguments.count[0] = static_cast<std::uint32_t>(taken);
}

/** @brief The place of a table's rows in a slot. */
struct TablePlace {
  std::size_t first = 0;   ///< index in the list of the table's first row
  std::size_t packed = 0;  ///< index in the slot of the table's first id
  std::size_t rows = 0;    ///< number of rows that fit
  std::size_t at = 0;      ///< offset in the slot of the table's values, in floats
};

/** @brief Returns a place for each table, and one for the end. */
template <typename Key>
[[nodiscard]] std::vector<TablePlace> place_tables(std::span<const Key> rows,
                                                   std::span<const SourceTable> tables,
                                                   const GatherShape& shape) {
  std::vector<TablePlace> places;
  TablePlace next;
  std::size_t left = budget(shape.capacity, tables.size());
  for (const SourceTable& table : tables) {
    const auto begin = static_cast<std::size_t>(
        std::lower_bound(rows.begin(), rows.end(), static_cast<Key>(table.first_row)) -
        rows.begin());
    const auto end = static_cast<std::size_t>(
        std::lower_bound(rows.begin(), rows.end(), static_cast<Key>(table.first_row + table.rows)) -
        rows.begin());
    next.first = begin;
    next.rows = 0;
    if (table.skipped == 0) {
      next.rows = rows_that_fit(end - begin, left, table, shape, sizeof(Key));
      // After the first row that does not fit, no row is copied, because rows are delivered in
      // order.
      left = next.rows < end - begin ? 0 : left - bytes_of(next.rows, table, shape, sizeof(Key));
    }
    places.push_back(next);
    next.packed += next.rows;
    next.at += floats_of(next.rows, table, shape);
  }
  next.first = rows.size();
  next.rows = 0;
  places.push_back(next);
  return places;
}

/** @brief Copies the delivered values of row number `i` of the list. */
template <typename T, typename Key>
void copy_row(T* weights, T* state, const GatherRowsArguments<T, Key>& arguments,
              const SourceTable& table, std::size_t i) {
  const auto& [home, cached, slots, tables] = arguments.from;
  const GatherShape& shape = arguments.shape;
  const std::size_t row_of_table =
      static_cast<std::size_t>(arguments.rows[i]) - static_cast<std::size_t>(table.first_row);
  const std::int32_t slot = slots.empty() ? model::kNoSlot : slots[i];
  const bool at_slot =
      slot >= 0 && static_cast<std::size_t>(slot) < cached.weights.size() / shape.slot_width;
  const auto copy = [&](T* to, const ArrayView<const T>& of_home,
                        const ArrayView<const T>& of_slots, std::int64_t table_begin,
                        std::size_t width, std::size_t slot_width) {
    const T* const source =
        at_slot ? of_slots.data() + static_cast<std::size_t>(slot) * slot_width
                : of_home.data() + static_cast<std::size_t>(table_begin) + row_of_table * width;
    std::copy_n(source, width, to);
  };
  if (shape.weights != 0) {
    copy(weights, home.weights, cached.weights, table.weights,
         static_cast<std::size_t>(table.width), shape.slot_width);
  }
  if (shape.state == 0) return;
  const auto first_width = static_cast<std::size_t>(table.first_moment_width);
  const auto second_width = static_cast<std::size_t>(table.second_moment_width);
  if (first_width != 0) {
    copy(state, home.first_moment, cached.first_moment, table.first_moment, first_width,
         shape.moment_of_row != 0 ? std::size_t{1} : shape.slot_width);
  }
  if (second_width != 0) {
    copy(state + first_width, home.second_moment, cached.second_moment, table.second_moment,
         second_width, shape.slot_width);
  }
}

/**
 * @brief Works with any list, because tests leave out waits: then the list may contain anything,
 * and no other memory must be touched.
 */
template <typename T, typename Key>
void gather_rows(const GatherRowsArguments<T, Key>& arguments) {
  const auto& [slot, dirty, from, all_rows, count, shape] = arguments;
  const std::span<const SourceTable> tables = from.tables;
  const std::span<const Key> rows{all_rows.data(),
                                  std::min<std::size_t>(count[0], all_rows.size())};
  const auto places = place_tables(rows, tables, shape);
  const TablePlace& end = places.back();
  const std::size_t numbers = numbers_begin(tables.size(), end.packed, sizeof(Key));
  auto* const starts = reinterpret_cast<std::uint32_t*>(slot.data() + sizeof(CaptureHeader));
  auto* const ids = reinterpret_cast<Key*>(slot.data() + ids_begin(tables.size()));
  auto* const values = reinterpret_cast<T*>(slot.data() + numbers);
  CaptureHeader header{.rows = static_cast<std::uint32_t>(end.packed),
                       .tables = static_cast<std::uint32_t>(tables.size()),
                       .bytes = numbers + end.at * sizeof(T)};
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const SourceTable& table = tables[t];
    const TablePlace& place = places[t];
    starts[t] = static_cast<std::uint32_t>(place.packed);
    const std::size_t in_list = places[t + 1].first - place.first;
    if (table.skipped != 0) {
      header.skipped += in_list;
      continue;
    }
    const std::size_t width = shape.width_of(table), state = shape.state_of(table);
    T* const state_begin = values + place.at + rounded(place.rows * width, 4);
    for (std::size_t i = 0; i < in_list; ++i) {
      const Key row = rows[place.first + i];
      if (!table.has(row)) continue;
      if (i >= place.rows) {
        ++header.overflowed;
        set_bit(dirty.bits, dirty.counts[0], row >> dirty.shape.shift);
        continue;
      }
      ids[place.packed + i] = row;
      copy_row(values + place.at + i * width, state_begin + i * state, arguments, table,
               place.first + i);
    }
  }
  starts[tables.size()] = header.rows;
  header.missing = dirty.counts[0].rows;
  std::memcpy(slot.data(), &header, sizeof(header));
}

/** @brief Copies a gathered slot to another memory: as many bytes as its header says. */
inline void drain_slot(std::span<std::byte> to, std::span<const std::byte> from) {
  CaptureHeader header;
  std::memcpy(&header, from.data(), sizeof(header));
  const std::size_t bytes = std::min<std::size_t>(header.bytes, std::min(to.size(), from.size()));
  std::memcpy(to.data(), from.data(), std::max(bytes, sizeof(header)));
}

}  // namespace millrace::capture::host
