#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipelines/options.hpp"

namespace millrace::cli {

/** @brief A row of the table: the figures of a cell over all seeds. */
struct PipelineRow {
  experiment::PipelineCell cell;
  std::string failure;  ///< why the row has no figures; "" if it has figures

  double runtime_p50 = 0, runtime_p90 = 0;  ///< runtime of the loop in nanoseconds
  double bound = 0;                         ///< median, in nanoseconds
  std::vector<std::string> races;           ///< found by the checker, of all seeds
  experiment::PipelineRun example;          ///< the run whose reserved bytes are the median

  [[nodiscard]] bool ok() const noexcept { return failure.empty(); }
  /** @brief False for the driver's pool: which stream may use its free bytes is unknown. */
  [[nodiscard]] bool knows_usable() const noexcept {
    return !uses_driver_pool(cell.allocator, cell.options.copy);
  }
};

/** @brief Receivers of the recorded runs. */
struct PipelinesWatch {
  Timeline* timeline = nullptr;  ///< receives the run if it is the only one
  /// Receives the ranks of each row's run with the first seed. Called on several threads.
  std::function<void(std::size_t row, const experiment::RecordedRun&)> recorded{};
};

/**
 * @brief Runs every cell with every seed, two runs at a time.
 *
 * A row keeps the operations of its run only if it is the only run.
 */
[[nodiscard]] std::vector<PipelineRow> run_rows(const PipelinesOptions& options,
                                                const PipelinesWatch& watch = {});

/** @brief Examples per second of all ranks. */
[[nodiscard]] double examples_per_second(const PipelineRow& row,
                                         const experiment::Workload& workload);

}  // namespace millrace::cli
