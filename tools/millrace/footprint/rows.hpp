#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/spread.hpp"
#include "footprint/options.hpp"

namespace millrace::cli {

/** @brief The figures of one run, with one seed. Sizes are in bytes, times in nanoseconds. */
struct FootprintFigures {
  std::size_t requested = 0, allocated = 0, active = 0, reserved = 0;  ///< peak values of the run
  std::size_t rounded = 0, ordered = 0, packed = 0;                    ///< levels of the ladder
  std::size_t stranded = 0;
  double fragmentation = 0;
  double step_p50 = 0, step_p90 = 0, step_mean = 0;
  double hidden = 0;
  std::array<double, static_cast<std::size_t>(Call::count_)> calls{};  ///< in each step

  // Differences between levels of the ladder.
  [[nodiscard]] std::size_t rounding() const noexcept { return rounded - requested; }
  [[nodiscard]] std::size_t streams() const noexcept { return ordered - rounded; }
  [[nodiscard]] std::size_t packing() const noexcept { return packed - ordered; }
  [[nodiscard]] std::size_t policy() const noexcept { return reserved - packed; }

  [[nodiscard]] double utilization() const {
    return reserved == 0 ? 1 : static_cast<double>(active) / static_cast<double>(reserved);
  }
  [[nodiscard]] double all_calls() const;
};

/** @brief A row of the table: an allocator and a strategy. */
struct FootprintRow {
  std::string allocator;
  CopyMethod method = CopyMethod::side_stream;
  std::string failure;  ///< why the row has no figures; "" if it has figures

  FootprintFigures figures;  ///< the median of each figure over the seeds
  std::vector<FootprintFigures> by_seed;
  experiment::FootprintRun example;  ///< the run whose reserved bytes are the median

  std::optional<std::vector<std::string>> races;  ///< of all seeds; see experiment::FootprintRun

  [[nodiscard]] bool ok() const noexcept { return failure.empty(); }
  /** @brief False for the driver's pool, which does not tell which stream may use its free bytes.
   */
  [[nodiscard]] bool knows_usable() const noexcept { return !uses_driver_pool(allocator, method); }
  /** @brief True if the sizes come from a model of the driver's pool and not from an allocator. */
  [[nodiscard]] bool modeled_sizes() const noexcept {
    return example.modeled && uses_driver_pool(allocator, method);
  }
  /** @brief The name of a stream of the loop; "another stream" for an unknown stream. */
  [[nodiscard]] std::string stream_name(StreamId stream) const;

  [[nodiscard]] Spread reserved() const;  ///< peak bytes, over the seeds
  /** @brief Peak reserved bytes of `from` minus those of this row. Each seed is compared with
   *         itself, so the batch sizes are the same. Both rows must be ok. */
  [[nodiscard]] Spread saving(const FootprintRow& from) const;
  /** @brief Added time of a step (P50) compared with `from`, seed by seed, in nanoseconds. */
  [[nodiscard]] Spread longer_step(const FootprintRow& from) const;
};

/** @brief All rows of one workload. */
struct FootprintTable {
  experiment::Workload workload;
  std::vector<FootprintRow> rows;

  /** @return nullptr if the row does not exist or failed */
  [[nodiscard]] const FootprintRow* find(std::string_view allocator, CopyMethod method) const;
  /** @brief The row that others are compared with: torch with side-stream if it has figures,
   *         otherwise the row that reserves most. nullptr if every row failed. */
  [[nodiscard]] const FootprintRow* usual() const;
};

/** @brief Receivers of the recorded runs with the first seed. */
struct FootprintWatch {
  Timeline* timeline = nullptr;  ///< receives the run of the only row
  /// Receives the run of each row. Rows are numbered over all tables. Called on several threads.
  std::function<void(std::size_t row, const experiment::RecordedRun&)> recorded{};
};

/** @brief Runs every cell: two at a time on virtual devices, one at a time on a GPU. */
[[nodiscard]] std::vector<FootprintTable> run_tables(const FootprintOptions& options,
                                                     const FootprintWatch& watch = {});

}  // namespace millrace::cli
