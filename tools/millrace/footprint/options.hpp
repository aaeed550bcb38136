#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/results.hpp"
#include "millrace/experiment/footprint.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"

namespace millrace::cli {

/** @brief The values of the options, not checked yet. */
struct FootprintArguments {
  std::string device = "virtual:h200";
  std::string allocators = "all";
  std::string copies = "all";
  std::string waits = "coarse";
  std::string seed = "1";
  std::optional<std::string> workload;
  std::optional<std::string> activations, compute_to_copy, run_ahead, batch_bytes, steps;
  std::optional<std::string> seeds;
  bool wide = false;
  ResultArguments results;
  std::optional<std::string> timeline, html, record, snapshot, init;
};

/** @brief The checked options. */
struct FootprintOptions {
  DeviceDescription device;
  std::vector<std::string> allocators;
  std::vector<CopyMethod> methods;
  std::vector<experiment::Workload> workloads;  ///< the requested workload comes first
  Waits waits = Waits::coarse;
  std::uint64_t seed = 1;  ///< seed of the first draw
  std::size_t seeds = 1;   ///< number of draws of the batch sizes
  bool wide = false;       ///< show all columns and explain the advice
};

/** @throws UsageError */
[[nodiscard]] FootprintOptions read_options(const FootprintArguments& arguments);

/** @brief The number of rows of all tables. */
[[nodiscard]] std::size_t rows_of(const FootprintOptions& options) noexcept;

/**
 * @brief Checks an option whose file shows one run.
 * @param option  "--timeline"
 * @param what    "timeline"
 * @throws UsageError if the tables have several rows
 */
void check_one_run(const FootprintOptions& options, const char* option, const char* what);

}  // namespace millrace::cli
