#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/streamer/step_batch.hpp"
#include "ship/row_index.hpp"

namespace millrace::ship {

/**
 * @brief Waiting steps, merged: only the newest record of each row, in the place of the older one.
 */
class Backlog {
 public:
  /** @brief Begins with a step that contains each of its rows once. Copies nothing. */
  void begin(StepBatch first);
  /** @brief Adds the next step of the rank. @return number of older rows that it replaced */
  std::uint64_t add(const StepBatch& next);
  /**
   * @brief Like `add`, within a limit. A row that replaces an older one needs no room.
   * @param room     maximum bytes of all rows
   * @param no_room  receives the rows that do not fit
   */
  std::uint64_t add(const StepBatch& next, std::size_t room, StepBatch& no_room);
  /** @brief Returns the merged steps, and becomes empty. */
  [[nodiscard]] StepBatch take();

  [[nodiscard]] bool empty() const noexcept { return steps_ == 0; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::size_t rows() const noexcept { return rows_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return rows_.bytes(); }

 private:
  void index_first();

  StepCommit commit_;
  std::uint64_t steps_ = 0;
  StepBatch rows_;
  RowIndex index_;  ///< index of `rows_`; empty while only one step waits
};

}  // namespace millrace::ship
