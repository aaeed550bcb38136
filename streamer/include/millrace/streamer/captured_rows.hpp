#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/streamer/record.hpp"

/// @file
/// Rows in host memory, as a RowCapture delivers them or a ChangeTracker reads them.
///
/// A source is the tables of one EmbeddingBags on one rank. A row id counts the rows of all tables
/// of a source, one table after another; a row number counts the rows of one whole table.

namespace millrace {

/**
 * @brief Changed rows of one source and their values, after the update of one step.
 *
 * Each row occurs once; ids ascend. A delivered step also covers the steps of the source that were
 * skipped before it.
 */
struct CapturedRows {
  /** @brief The rows of one table, or of this rank's shard of it. */
  struct TableRows {
    std::uint32_t table = 0;  ///< number in the schema
    std::uint32_t width = 0;  ///< floats of weights for each row
    std::uint32_t state = 0;  ///< floats of optimizer state for each row
    std::size_t first = 0;    ///< index of the table's first row among all ids
    std::size_t rows = 0;
    std::int64_t to_row = 0;                 ///< row number in the whole table minus row id
    const float* weights = nullptr;          ///< [rows x width]; null: not delivered
    const float* optimizer_state = nullptr;  ///< [rows x state]; null: not delivered
  };

  std::size_t source = 0;   ///< RowCapture::Source::number
  std::uint64_t step = 0;   ///< step of the tables' optimizer: the last update that was made
  std::uint64_t after = 0;  ///< ChangeTracker: the rows changed after this step; otherwise 0
  /** Another part of the same step follows immediately. */
  bool more = false;
  /** Upper bound on rows that changed (or belong to a snapshot) and have not been delivered yet.
   * Exactly 0 if no row is missing. */
  std::uint64_t missing = 0;
  /** Newest request of `RowCapture::mark_dirty` or `mark_all_dirty` whose rows `missing` counts.
   * Rows of later requests are not counted yet. */
  std::uint64_t requests = 0;
  /** Number of rows where nothing is computed (`ModelContext::cost_only`): then there are no ids.
   */
  std::size_t modeled_rows = 0;

  std::vector<TableRows> tables;             ///< only tables that have rows here
  std::span<const std::uint32_t> short_ids;  ///< ids of sources with fewer than 2^31 rows
  std::span<const std::uint64_t> long_ids;   ///< ids of other sources

  /** @return number of rows */
  [[nodiscard]] std::size_t size() const noexcept { return short_ids.size() + long_ids.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::uint64_t id(std::size_t i) const noexcept {
    return short_ids.empty() ? long_ids[i] : short_ids[i];
  }

  /**
   * @brief Calls `visit` with a RowRecord for each row: table by table, row numbers ascending.
   * @param epoch  epoch of the records' versions
   * @param visit  called with a `const RowRecord&` whose spans are valid as long as this object
   */
  template <typename Visit>
  void visit(std::uint64_t epoch, Visit&& visit) const {
    for (const TableRows& part : tables) {
      for (std::size_t i = 0; i < part.rows; ++i) {
        RowRecord row{.version = {epoch, step},
                      .table = part.table,
                      .row = static_cast<std::int64_t>(id(part.first + i)) + part.to_row};
        if (part.weights != nullptr) row.weights = {part.weights + i * part.width, part.width};
        if (part.optimizer_state != nullptr) {
          row.state = {part.optimizer_state + i * part.state, part.state};
        }
        visit(row);
      }
    }
  }
};

/** @brief Receives captured rows. */
class CaptureReceiver {
 public:
  virtual ~CaptureReceiver() = default;

  /**
   * @brief Takes the rows of one step, or of one part of it.
   *
   * Each capture calls this from its copier, one call at a time, steps ascending. Copiers of
   * several captures call concurrently. Steps without rows are delivered, too. A step may be
   * delivered twice: a flush adds rows to the last one.
   * @param rows  the memory that it points to is valid until this returns
   * @return false if the rows were not taken: they become dirty and are delivered with a later
   * step. An exception has the same effect.
   */
  [[nodiscard]] virtual bool captured(const CapturedRows& rows) = 0;
};

}  // namespace millrace
