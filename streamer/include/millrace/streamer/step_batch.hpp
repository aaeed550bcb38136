#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace {

/**
 * @brief What a rank tells of a step, or of a few in a row: rows, encoded once for all sinks, and
 *        the mark behind them. Each row is there once.
 */
class StepBatch {
 public:
  StepMark mark;  ///< `rows` is set by `add`

  void reserve(std::size_t rows, std::size_t bytes);
  void add(const RowRecord& row);
  /** @brief Adds a row's record that was parsed. */
  void add_encoded(std::span<const std::byte> record);
  /** @brief Puts a row's record in the place of an older one of that row.
   *  @throws std::invalid_argument if their lengths differ: rows of a table have one length */
  void replace(std::size_t i, std::span<const std::byte> record);

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }  ///< rows
  [[nodiscard]] bool empty() const noexcept { return ends_.empty(); }
  /** @brief Of all rows' records: what bounds of queues count. */
  [[nodiscard]] std::size_t bytes() const noexcept { return records_.size(); }
  /** @brief All rows, one behind another. */
  [[nodiscard]] std::span<const std::byte> records() const noexcept { return records_; }
  [[nodiscard]] std::span<const std::byte> record(std::size_t i) const noexcept;
  /** @brief Points into the batch. */
  [[nodiscard]] RowRecord row(std::size_t i) const noexcept;

  /**
   * @brief This one and the next of the same rank, as one: of a row that both have, the newer.
   *        Its mark is the newer one's, but goes after what this one's did.
   */
  [[nodiscard]] StepBatch followed_by(const StepBatch& next) const;

 private:
  std::vector<std::byte> records_;
  std::vector<std::size_t> ends_;  ///< of each record in them
};

}  // namespace millrace
