#pragma once

#include <string>
#include <vector>

#include "pipelines/options.hpp"

namespace millrace::cli {

/** @brief A row of the table: what the runs of a cell came to, over the seeds. */
struct PipelineRow {
  experiment::PipelineCell cell;
  std::string failure;  ///< why there are no figures; "" if there are

  double runtime_p50 = 0, runtime_p90 = 0;  ///< of the loop, in nanoseconds
  double bound = 0;                         ///< median, in nanoseconds
  std::vector<std::string> races;           ///< what the checker says of all seeds
  experiment::PipelineRun example;          ///< the run with the median of reserved

  [[nodiscard]] bool ok() const noexcept { return failure.empty(); }
  /** @brief The driver's pool does not say who could have its free bytes, nor who had them last. */
  [[nodiscard]] bool knows_usable() const noexcept {
    return cell.allocator != "driver" && cell.options.copy != CopyMethod::driver_async;
  }
};

/**
 * @brief Runs every cell with every seed, two at a time.
 *        Operations are kept of the only run, if there is but one.
 * @param timeline  of the only one, or nullptr
 */
[[nodiscard]] std::vector<PipelineRow> run_rows(const PipelinesOptions& options,
                                                Timeline* timeline = nullptr);

/** @brief On all ranks together, a second. */
[[nodiscard]] double examples_per_second(const PipelineRow& row,
                                         const experiment::Workload& workload);

}  // namespace millrace::cli
