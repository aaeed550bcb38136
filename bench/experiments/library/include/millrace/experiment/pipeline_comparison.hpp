#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "millrace/device/timeline.hpp"
#include "millrace/experiment/run_recording.hpp"
#include "millrace/experiment/workload.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::experiment {

/** @brief One cell of the table: a pipeline with a copy strategy and an allocator, on all ranks. */
struct PipelineCell {
  std::string device = "virtual:h100";  ///< device of each rank; must be virtual
  std::string allocator = "torch";      ///< one of kAllocatorNames
  std::optional<Policy> policy{};       ///< replaces the policy of `allocator`
  PipelineKind pipeline = PipelineKind::sparse_dist;
  PipelineOptions options{};
  /// Factor for the time of the dense optimizer. It simulates a larger optimizer.
  double optimizer_work = 1;
  bool forward_only = false;                ///< evaluate with an EvalPipeline
  std::optional<TableCache> table_cache{};  ///< caches tables; std::nullopt: tables on the device
  RunRecorder recorded{};  ///< receives the run of each rank; empty: nothing is recorded
};

/** @brief One operation on an engine of a rank. */
struct LoopOperation {
  std::string name, stream;
  unsigned rank = 0;
  Engine engine = Engine::compute;
  Nanoseconds begin{0}, end{0};  ///< since the start of the loop
};

/** @brief Times of a rank's engines during the loop. */
struct EngineTimes {
  /// Time in which at least one operation ran on the engine. Indexed by `Engine`.
  std::array<Nanoseconds, static_cast<std::size_t>(Engine::count_)> busy{};
  Nanoseconds exposed_copies{0};     ///< time of copies of batches while nothing was computed
  Nanoseconds exposed_exchanges{0};  ///< time of exchanges between ranks while nothing was computed
};

/**
 * @brief A lower bound of the runtime for any order of the same operations.
 *
 * `data_flow` is the longest chain of operations, over all ranks, in which each reads what the
 * previous one wrote. Each operation takes the time that it takes alone. `engines` is the work of
 * the busiest engine: flops and bytes of all kernels divided by the device's rates, copies and
 * exchanges one after the other. `both` is at least the larger of the two. It is a chain whose
 * links may be several operations that run at the same time, and it takes the time that the engines
 * need for them.
 */
struct RuntimeBound {
  Nanoseconds data_flow{0};
  Nanoseconds engines{0};
  Nanoseconds both{0};

  [[nodiscard]] Nanoseconds runtime() const noexcept { return both; }
};

/** @brief The result of running one cell. */
struct PipelineRun {
  /// Time of the whole loop, from its start until the last rank's device is idle.
  Nanoseconds runtime{0};
  RuntimeBound bound;
  // The members from here on are those of the rank that reserves most.
  unsigned rank = 0;
  MemoryGauges memory;  ///< peaks of the loop, including the model
  Ladder ladder;
  std::size_t stranded_peak = 0;  ///< maximum for main at the ends of steps
  EngineTimes engines;
  std::map<StreamId, std::string> streams;

  std::vector<LoopOperation> operations;  ///< operations of all ranks, in order of begin

  std::vector<std::string> races;  ///< messages of the race checker for all ranks; empty if none
};

/**
 * @brief Runs a workload's model with a pipeline, on all ranks of one virtual machine.
 *
 * It runs the real operations with their costs but without data. The model is a SparseNN. Each
 * table is on one rank. The link between ranks has the profile's rate and the workload's latency.
 * Batches are drawn from the seed for each rank. The loop starts when every rank is prepared.
 * @param timeline  records the run until it ends or fails; may be nullptr
 * @throws std::invalid_argument for a device that is not virtual, an unknown allocator, a workload
 *         without a model, or a model that the pipeline refuses
 * @throws out_of_memory, DeviceError like the ranks
 */
[[nodiscard]] PipelineRun run_pipeline(const PipelineCell& cell, const Workload& workload,
                                       std::uint64_t seed, Timeline* timeline = nullptr);

}  // namespace millrace::experiment
