#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/results.hpp"
#include "millrace/experiment/pipeline_comparison.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"

namespace millrace::cli {

/** @brief The values of the options, not checked yet. */
struct PipelinesArguments {
  std::string workload = "sparse_data_dist_base";
  std::string device = "virtual:h100";
  std::string pipelines = "all";
  std::string copies = "side-stream,in-place,precise";
  std::string waits = "coarse";
  std::string allocators = "torch,millrace";
  bool forward_only = false;
  bool wide = false;
  std::string seed = "1";
  std::string seeds = "3";
  std::optional<std::string> ranks, steps, batch_size, run_ahead, link_gb_per_s;
  std::optional<std::string> picture, timeline, steps_picture, html;
  ResultArguments results;
  std::optional<std::string> cache_load_factor, cache_policy;
  std::optional<std::string> lookup_positions, lookup_streams, optimizer_work;
};

/** @brief The checked options. */
struct PipelinesOptions {
  experiment::Workload workload;
  DeviceDescription device;
  std::vector<experiment::PipelineCell> cells;  ///< one per row
  std::optional<TableCache> cache;              ///< for the tables of all pipelines
  std::uint64_t seed = 1;                       ///< seed of the first draw
  std::size_t seeds = 1;
  bool wide = false;         ///< show all columns
  double link_gb_per_s = 0;  ///< bandwidth of each rank's link per direction, in 10^9 bytes/s
};

/** @brief Names of the built-in workloads with a model. A pipeline needs a model. */
[[nodiscard]] std::vector<std::string> workloads_with_models();

/** @brief Title of a cell: the pipeline, and its options that differ from the default. */
[[nodiscard]] std::string title_of(const experiment::PipelineCell& cell);

/** @throws UsageError */
[[nodiscard]] PipelinesOptions read_options(const PipelinesArguments& arguments);

}  // namespace millrace::cli
