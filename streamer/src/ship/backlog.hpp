#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "millrace/streamer/step_batch.hpp"
#include "record/row_key.hpp"

namespace millrace::ship {

/** @brief Steps that wait as one: of each row the newest. */
class Backlog {
 public:
  /** @brief Room for so many bytes of rows, old ones among them: address space, until it is used.
   */
  void reserve(std::size_t bytes) { rows_.reserve(0, bytes); }
  /** @brief The next step of the rank. @return rows that it made superfluous */
  std::uint64_t add(const StepBatch& next);
  /** @brief All of them; it is empty then. */
  [[nodiscard]] StepBatch take();

  [[nodiscard]] bool empty() const noexcept { return steps_ == 0; }
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }
  [[nodiscard]] std::size_t rows() const noexcept { return newest_.size(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return live_; }

 private:
  void squeeze();

  StepMark mark_;
  std::uint64_t steps_ = 0;
  StepBatch rows_;                                              ///< older ones of a row as well
  std::unordered_map<RowKey, std::size_t, RowKeyHash> newest_;  ///< which of them
  std::size_t live_ = 0;                                        ///< bytes of those
};

}  // namespace millrace::ship
