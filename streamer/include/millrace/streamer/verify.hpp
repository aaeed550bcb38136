#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "millrace/streamer/lineage.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace {

/** @brief Tables as they should be. */
struct ReferenceTables {
  /** Reads numbers of a row: its weights, or its optimizer's state as records have it.
   * @return false: there are none to compare with */
  using Read = std::function<bool(const StreamedTable& table, std::int64_t row,
                                  std::span<float> weights, std::span<float> state)>;
  Read read;
  Lineage lineage;  ///< of them; empty: whatever step a row is of, it is compared
};

struct RowDifference {
  std::string table;
  std::int64_t row = 0;
  Version version;     ///< of the copy's
  std::size_t at = 0;  ///< the first number that differs: of the weights, then of the state
  float there = 0, expected = 0;
};

struct VerifyReport {
  std::uint64_t rows = 0;       ///< of all tables
  std::uint64_t equal = 0;      ///< to the bit
  std::uint64_t different = 0;  ///< of steps of the lineage
  std::uint64_t newer = 0;      ///< of other steps, and with other numbers: later than the tables
  std::uint64_t absent = 0;     ///< the copy has no such row
  std::uint64_t damaged = 0;    ///< no rows of the schema
  std::vector<RowDifference> first;  ///< of those that differ, the first that were met
  std::string damage;                ///< the first
  SinkState copy;

  [[nodiscard]] bool same() const noexcept {
    return different == 0 && newer == 0 && absent == 0 && damaged == 0;
  }
};

/**
 * @brief Compares every row of a copy with the tables that it should be: bit by bit.
 * @throws SinkError: wrong, too, for a copy that has marks and no schema; std::invalid_argument if
 *         the copy is empty, or has only ids
 */
[[nodiscard]] VerifyReport verify_copy(Sink& copy, const ReferenceTables& tables);

}  // namespace millrace
