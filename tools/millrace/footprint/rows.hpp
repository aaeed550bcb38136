#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/spread.hpp"
#include "footprint/options.hpp"

namespace millrace::cli {

/** @brief What one draw of sizes came to. Bytes, and times in nanoseconds. */
struct FootprintFigures {
  std::size_t requested = 0, allocated = 0, active = 0, reserved = 0;  ///< peaks of the run
  std::size_t rounded = 0, ordered = 0, packed = 0;                    ///< levels of the ladder
  std::size_t stranded = 0;
  double fragmentation = 0;
  double step_p50 = 0, step_p90 = 0, step_mean = 0;
  double hidden = 0;
  std::array<double, static_cast<std::size_t>(Call::count_)> calls{};  ///< a step

  // Steps of the ladder.
  [[nodiscard]] std::size_t rounding() const noexcept { return rounded - requested; }
  [[nodiscard]] std::size_t streams() const noexcept { return ordered - rounded; }
  [[nodiscard]] std::size_t packing() const noexcept { return packed - ordered; }
  [[nodiscard]] std::size_t policy() const noexcept { return reserved - packed; }

  [[nodiscard]] double utilisation() const {
    return reserved == 0 ? 1 : static_cast<double>(active) / static_cast<double>(reserved);
  }
  [[nodiscard]] double all_calls() const;
};

/** @brief A row of the table: an allocator and a strategy. */
struct FootprintRow {
  std::string allocator;
  CopyMethod method = CopyMethod::side_stream;
  std::string failure;  ///< why there are no figures; "" if there are

  FootprintFigures figures;  ///< each the median over the seeds
  std::vector<FootprintFigures> by_seed;
  experiment::FootprintRun example;  ///< the run with the median of reserved: what its bytes were

  std::optional<std::vector<std::string>> races;  ///< of all seeds; see experiment::FootprintRun

  [[nodiscard]] bool ok() const noexcept { return failure.empty(); }
  /** @brief The driver's pool does not say who could have its free bytes, nor who had them last. */
  [[nodiscard]] bool knows_usable() const noexcept {
    return allocator != "driver" && method != CopyMethod::driver_async;
  }
  /** @brief Sizes follow from a model of the driver's pool, not from an allocator's decisions. */
  [[nodiscard]] bool modelled_sizes() const noexcept {
    return example.modelled && (allocator == "driver" || method == CopyMethod::driver_async);
  }
  /** @brief Of the loop; "another stream" if it is none of its own. */
  [[nodiscard]] std::string stream_name(StreamId stream) const;

  [[nodiscard]] Spread reserved() const;  ///< peak bytes, over the seeds
  /** @brief Peak reserved bytes that `from` has more than this row, seed by seed: on the same
   * sizes. Both are ok. */
  [[nodiscard]] Spread saving(const FootprintRow& from) const;
  /** @brief How much longer a step (P50) takes than that of `from`, seed by seed, in nanoseconds.
   */
  [[nodiscard]] Spread longer_step(const FootprintRow& from) const;
};

/** @brief All rows of one workload. */
struct FootprintTable {
  experiment::Workload workload;
  std::vector<FootprintRow> rows;

  /** @brief nullptr if it is not there, or failed. */
  [[nodiscard]] const FootprintRow* find(std::string_view allocator, CopyMethod method) const;
  /** @brief What the others are compared with: torch, side-stream, or else the row that reserves
   * most; nullptr if every row failed. */
  [[nodiscard]] const FootprintRow* usual() const;
};

/**
 * @brief Runs every cell: virtual devices two at a time, a GPU's one after another.
 * @param timeline  of the only row, of the first seed's run; nullptr: none
 */
[[nodiscard]] std::vector<FootprintTable> run_tables(const FootprintOptions& options,
                                                     Timeline* timeline = nullptr);

}  // namespace millrace::cli
