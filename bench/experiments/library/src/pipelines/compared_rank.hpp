#pragma once

#include <memory>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/experiment/pipeline_comparison.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "millrace/pipeline/sharding/sharding_plan.hpp"

namespace millrace::experiment {

/** @brief The data that all ranks of a run share. */
struct ComparedRun {
  const PipelineCell& cell;
  const Workload& workload;
  const SparseNNConfig& model;
  const ShardingPlan& plan;
  VirtualMachine& machine;
  ThreadRanks& ranks;
  CheckingObserver& checking;
};

/** @brief The figures of one rank's run. */
struct RankReport {
  Nanoseconds begin{0}, end{0};  ///< begin and end of its loop
  MemoryGauges memory;
  Ladder ladder;
  std::size_t stranded_peak = 0;
  std::map<StreamId, std::string> streams;
};

/** @brief Runs one rank, on its actor's thread. */
[[nodiscard]] RankReport run_rank(const ComparedRun& run, unsigned rank, VirtualDevice& device,
                                  const std::vector<InputShape>& batches);

}  // namespace millrace::experiment
