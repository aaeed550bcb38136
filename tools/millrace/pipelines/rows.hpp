#pragma once

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

/**
 * @brief Runs every cell with every seed, two runs at a time.
 *
 * A row keeps the operations of its run only if there is a single run.
 * @param timeline  gets that single run; nullptr for none
 */
[[nodiscard]] std::vector<PipelineRow> run_rows(const PipelinesOptions& options,
                                                Timeline* timeline = nullptr);

/** @brief Examples a second, of all ranks together. */
[[nodiscard]] double examples_per_second(const PipelineRow& row,
                                         const experiment::Workload& workload);

}  // namespace millrace::cli
