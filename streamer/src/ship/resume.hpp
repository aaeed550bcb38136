#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "millrace/streamer/shipper.hpp"

namespace millrace::ship {

/**
 * @brief Whether a sink has all of the lineage: it was delivered in the epoch of the last step, or
 * in an epoch that began with the same tables.
 *
 * An epoch that began elsewhere may lack rows of steps that it does not descend from. Ranks that
 * do not exist any more do not count: the ranks after them delivered all rows.
 */
[[nodiscard]] bool goes_on(const SinkState& there, const StreamBeginning& beginning);

/** @brief Which rows of the schema were met in a sink: one bit a row. */
class PresentRows {
 public:
  explicit PresentRows(const StreamSchema& schema);

  void add(std::uint32_t table, std::int64_t row);
  /** @brief Gives the rows that were not met, in batches without numbers. */
  void visit_absent(const std::function<void(const StepBatch&)>& visit) const;

 private:
  std::vector<std::vector<bool>> tables_;
};

/** @brief Collects rows, and gives them out as batches of a bounded number of rows. */
class RowBatches {
 public:
  explicit RowBatches(std::function<void(const StepBatch&)> visit) : visit_(std::move(visit)) {}

  void add(std::uint32_t table, std::int64_t row, Version version = {});
  /** @brief Gives out what is left. */
  void finish();

 private:
  std::function<void(const StepBatch&)> visit_;
  StepBatch some_;
};

}  // namespace millrace::ship
