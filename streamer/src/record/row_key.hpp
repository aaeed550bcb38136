#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/streamer/record.hpp"

namespace millrace {

/** @brief Identifies a row in hash tables. */
struct RowKey {
  std::uint32_t table = 0;
  std::int64_t row = 0;
  friend bool operator==(const RowKey&, const RowKey&) = default;
};

struct RowKeyHash {
  std::size_t operator()(const RowKey& key) const noexcept {
    return (static_cast<std::size_t>(key.row) + key.table * 0x85EBCA6BU) * 0x9E3779B97F4A7C15U;
  }
};

[[nodiscard]] inline RowKey key_of(const RowRecord& row) { return {row.table, row.row}; }

}  // namespace millrace
