#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace {

/**
 * @brief What a source tells of a step: rows of its tables and their numbers, in host memory, as
 *        they were behind the update of that step.
 *
 * Rows are there once, ascending. What is told of a step stands for the steps of the source that
 * were passed over before it. A source is what one EmbeddingBags has on one rank.
 */
struct CapturedRows {
  /** @brief Rows of one table, or of this rank's part of it. */
  struct Part {
    std::uint32_t table = 0;                 ///< of the schema
    std::uint32_t width = 0, state = 0;      ///< floats a row
    std::size_t first = 0, rows = 0;         ///< of all ids: those of this part
    std::int64_t to_row = 0;                 ///< added to an id: the row of the whole table
    const float* weights = nullptr;          ///< [rows x width]; null: none are told
    const float* optimizer_state = nullptr;  ///< [rows x state]; null: none is told
  };

  std::size_t source = 0;
  std::uint64_t step = 0;   ///< of the tables' optimizer: the last one whose update had been made
  std::uint64_t after = 0;  ///< of a ChangeTracker: they have changed since this step; else 0
  /** Another part of this step follows at once: it is not told in full yet. */
  bool more = false;
  /** Rows of the source that have changed, or belong to a snapshot, and were not told by now: never
   * fewer; 0 if there are none. */
  std::uint64_t missing = 0;
  /** The newest call of `Capture::mark` or `mark_all` that `missing` counts the rows of: what was
   * marked behind it is not in there yet. */
  std::uint64_t marks = 0;
  /** There are rows, but no numbers: nothing is computed (`ModelContext::cost_only`). */
  std::size_t modelled_rows = 0;

  std::vector<Part> parts;                   ///< those that have rows
  std::span<const std::uint32_t> short_ids;  ///< of sources with fewer than 2^31 rows
  std::span<const std::uint64_t> long_ids;   ///< of others

  [[nodiscard]] std::size_t size() const noexcept {  ///< rows
    return short_ids.size() + long_ids.size();
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::uint64_t id(std::size_t i) const noexcept {
    return short_ids.empty() ? long_ids[i] : short_ids[i];
  }

  /** @brief Calls with a RowRecord of each row, table by table, rows ascending; spans are valid as
   *         long as this is. */
  template <typename Visit>
  void visit(std::uint64_t epoch, Visit&& visit) const {
    for (const Part& part : parts) {
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

/** @brief Who is given what was captured. */
class CaptureReceiver {
 public:
  virtual ~CaptureReceiver() = default;

  /**
   * @brief Takes rows; called by the copier of each source, for one step after the other.
   *
   * Steps without rows are told as well. The same step may come again later: what a flush adds.
   * The memory is another step's when this returns.
   * @return false: these rows were not taken; they are told again with a later step
   */
  [[nodiscard]] virtual bool captured(const CapturedRows& rows) = 0;
};

}  // namespace millrace
