#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "millrace/streamer/lineage.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace {

/** @brief The expected contents of the tables. */
struct ReferenceTables {
  /** Reads the expected weights and optimizer state of a row, laid out as in records.
   * @return false if the reference does not have the row */
  using Read = std::function<bool(const StreamedTable& table, std::int64_t row,
                                  std::span<float> weights, std::span<float> state)>;
  Read read;
  Lineage lineage;  ///< lineage of these tables; empty: rows of all steps are compared
};

/** @brief A row that differs from the expected one. */
struct RowDifference {
  std::string table;
  std::int64_t row = 0;
  Version version;     ///< version of the row in the copy
  std::size_t at = 0;  ///< index of the first value that differs: weights first, then state
  float there = 0, expected = 0;  ///< the value in the copy, and the expected one
};

/** @brief The result of `verify_copy`. */
struct VerifyReport {
  std::uint64_t rows = 0;            ///< number of rows of all tables
  std::uint64_t equal = 0;           ///< rows that are equal bit by bit
  std::uint64_t different = 0;       ///< rows of steps in the lineage with other values
  std::uint64_t newer = 0;           ///< rows of other (later) steps with other values
  std::uint64_t absent = 0;          ///< rows that the copy does not have
  std::uint64_t damaged = 0;         ///< records that are not rows of the schema
  std::vector<RowDifference> first;  ///< the first few rows that differ, in the order of reading
  std::string damage;                ///< description of the first damaged record
  SinkState copy;

  /** @return true if every row is equal */
  [[nodiscard]] bool same() const noexcept {
    return different == 0 && newer == 0 && absent == 0 && damaged == 0;
  }
};

/**
 * @brief Compares every row of a copy with the expected tables, bit by bit.
 * @throws SinkError if the copy cannot be read; `wrong` if the copy has commits and no schema
 * @throws std::invalid_argument if the copy is empty, or has row numbers only
 */
[[nodiscard]] VerifyReport verify_copy(Sink& copy, const ReferenceTables& tables);

}  // namespace millrace
