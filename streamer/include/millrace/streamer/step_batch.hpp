#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace {

/**
 * @brief The rows of one or more successive steps of one rank, and the commit after them.
 *
 * Rows are encoded as records once for all sinks. Each row occurs once. Not thread-safe.
 */
class StepBatch {
 public:
  StepCommit commit;  ///< `add` counts its `rows`

  void reserve(std::size_t rows, std::size_t bytes);
  void add(const RowRecord& row);
  /** @brief Adds the record of a row, which the caller has parsed. */
  void add_encoded(std::span<const std::byte> record);
  /** @brief Replaces the record of row `i` by a newer one of the same row.
   *  @throws std::invalid_argument if the lengths of the records differ */
  void replace(std::size_t i, std::span<const std::byte> record);

  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }  ///< number of rows
  [[nodiscard]] bool empty() const noexcept { return ends_.empty(); }
  /** @return bytes of all records; queue limits count these */
  [[nodiscard]] std::size_t bytes() const noexcept { return records_.size(); }
  /** @return all records, one after another */
  [[nodiscard]] std::span<const std::byte> records() const noexcept { return records_; }
  [[nodiscard]] std::span<const std::byte> record(std::size_t i) const noexcept;
  /** @return row `i`; its spans point into the batch */
  [[nodiscard]] RowRecord row(std::size_t i) const noexcept;

 private:
  std::vector<std::byte> records_;
  std::vector<std::size_t> ends_;  ///< end offset of each record
};

}  // namespace millrace
