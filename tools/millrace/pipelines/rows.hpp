#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipelines/options.hpp"

namespace millrace::cli {

/** @brief A row of the table: the figures of a cell over the seeds. */
struct PipelineRow {
  experiment::PipelineCell cell;
  std::string failure;  ///< why there are no figures; "" if there are

  double runtime_p50 = 0, runtime_p90 = 0;  ///< of the loop, in nanoseconds
  double bound = 0;                         ///< median, in nanoseconds
  std::vector<std::string> races;           ///< what the checker found, of all seeds
  experiment::PipelineRun example;          ///< the run whose reserved bytes are the median

  [[nodiscard]] bool ok() const noexcept { return failure.empty(); }
  /** @brief False for the driver's pool: it does not say which stream may use its free bytes. */
  [[nodiscard]] bool knows_usable() const noexcept {
    return !uses_driver_pool(cell.allocator, cell.options.copy);
  }
};

/** @brief What is recorded of the runs. */
struct PipelinesWatch {
  Timeline* timeline = nullptr;  ///< gets the single run, if there is one
  /// Gets the ranks of each row's run with the first seed; called on several threads.
  std::function<void(std::size_t row, const experiment::RecordedRun&)> recorded{};
};

/**
 * @brief Runs every cell with every seed, two runs at a time.
 *
 * A row keeps the operations of its run only if there is a single run.
 */
[[nodiscard]] std::vector<PipelineRow> run_rows(const PipelinesOptions& options,
                                                const PipelinesWatch& watch = {});

/** @brief Examples a second, of all ranks together. */
[[nodiscard]] double examples_per_second(const PipelineRow& row,
                                         const experiment::Workload& workload);

}  // namespace millrace::cli
