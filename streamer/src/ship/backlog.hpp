#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/streamer/step_batch.hpp"
#include "ship/row_index.hpp"

namespace millrace::ship {

/** @brief Steps that wait as one: of each row the newest, in the place of the older one. */
class Backlog {
 public:
  /** @brief Begins with a step that has each of its rows once: nothing is copied. */
  void begin(StepBatch first);
  /** @brief The next step of the rank. @return rows that it made superfluous */
  std::uint64_t add(const StepBatch& next);
  /**
   * @brief The same, within a limit. A row that replaces an older one needs no room.
   * @param room     bytes of rows
   * @param no_room  receives the rows that do not fit
   */
  std::uint64_t add(const StepBatch& next, std::size_t room, StepBatch& no_room);
  /** @brief All of them; it is empty then. */
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
  RowIndex index_;  ///< of those rows; empty while there is one step
};

}  // namespace millrace::ship
