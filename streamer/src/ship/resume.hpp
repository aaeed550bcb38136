#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "millrace/streamer/shipper.hpp"

namespace millrace::ship {

/**
 * @brief Returns whether a sink has all of the lineage: its commits are from the epoch of the last
 * step and reach that step, or from an epoch that began with the same tables.
 *
 * An epoch that began with other tables may lack rows of steps that it does not descend from. Ranks
 * that no longer exist do not count: the later ranks have delivered all rows.
 */
[[nodiscard]] bool goes_on(const SinkState& there, const StreamBeginning& beginning);

/** @brief The rows of the schema that a sink has: one bit for each row. */
class PresentRows {
 public:
  explicit PresentRows(const StreamSchema& schema);

  void add(std::uint32_t table, std::int64_t row);
  /** @brief Visits the rows that were not added, in batches of records without values. */
  void visit_absent(const std::function<void(const StepBatch&)>& visit) const;

 private:
  std::vector<std::vector<bool>> tables_;
};

/** @brief Collects rows, and passes them on in batches of a bounded number of rows. */
class RowBatches {
 public:
  explicit RowBatches(std::function<void(const StepBatch&)> visit) : visit_(std::move(visit)) {}

  void add(std::uint32_t table, std::int64_t row, Version version = {});
  /** @brief Passes on the remaining rows. */
  void finish();

 private:
  std::function<void(const StepBatch&)> visit_;
  StepBatch some_;
};

}  // namespace millrace::ship
