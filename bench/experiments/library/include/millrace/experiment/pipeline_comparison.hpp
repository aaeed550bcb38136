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
#include "millrace/experiment/workload.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "millrace/pipeline/schedule/train_pipeline.hpp"

namespace millrace::experiment {

/** @brief A pipeline, with a copy strategy, on an allocator, on every rank of a workload. */
struct PipelineCell {
  std::string device = "virtual:h100";  ///< of each rank; a virtual one
  std::string allocator = "torch";      ///< one of kAllocatorNames
  std::optional<Policy> policy{};       ///< in place of that of `allocator`
  PipelineKind pipeline = PipelineKind::sparse_dist;
  PipelineOptions options{};
  /** The dense optimizer takes this many times what its own work does: what one with more to do
   * would make of a pipeline. */
  double optimizer_work = 1;
  bool forward_only = false;                ///< evaluates, through an EvalPipeline
  std::optional<TableCache> table_cache{};  ///< of the model's tables; none: they are on the device
};

/** @brief What an engine of a rank did in the loop. */
struct LoopOperation {
  std::string name, stream;
  unsigned rank = 0;
  Engine engine = Engine::compute;
  Nanoseconds begin{0}, end{0};  ///< from the begin of the loop
};

/** @brief What the engines of a rank did during the loop. */
struct EngineTimes {
  /** In which at least one operation ran there. Indexed by `Engine`. */
  std::array<Nanoseconds, static_cast<std::size_t>(Engine::count_)> busy{};
  Nanoseconds exposed_copies{0};     ///< a batch was being copied, and nothing computed
  Nanoseconds exposed_exchanges{0};  ///< ranks exchanged data, and nothing computed
};

/**
 * @brief What no order of the same operations could be faster than.
 *
 * `data_flow` is the longest chain of operations of which each reads what the one before wrote, on
 * all ranks together, each as long as it takes alone: what any schedule of these operations has to
 * do one after the other, whatever it does at once. `engines` is the work of the engine that has
 * most: flops and bytes of all kernels over the device's rates, copies and exchanges one after the
 * other. `both` is never less than either: a chain whose links may be several operations that go
 * at once, and take as long as the engines need for them.
 */
struct RuntimeBound {
  Nanoseconds data_flow{0};
  Nanoseconds engines{0};
  Nanoseconds both{0};

  [[nodiscard]] Nanoseconds runtime() const noexcept { return both; }
};

struct PipelineRun {
  Nanoseconds runtime{
      0};  ///< of the whole loop: from its start until the last rank's device is done
  RuntimeBound bound;
  // Of the rank that reserves most.
  unsigned rank = 0;
  MemoryGauges memory;  ///< peaks of the loop; the model is there before
  Ladder ladder;
  std::size_t stranded_peak = 0;  ///< for main, at the ends of steps
  EngineTimes engines;
  std::map<StreamId, std::string> streams;

  std::vector<LoopOperation> operations;  ///< of all ranks, in order of begin

  std::vector<std::string> races;  ///< what the checker says of all ranks: nothing, if in order
};

/**
 * @brief Runs a workload's model through a pipeline: all ranks on one virtual machine, the real
 *        operations with their costs and without data.
 *
 * The model is SparseNN with tables that are shared among the ranks whole; the link between ranks
 * is as fast as the profile's, with the workload's latency. Batches are drawn for each rank from
 * the seed. Every rank has done all that comes before the loop when it starts.
 * @param timeline  records the run; it is stopped when that ends or fails
 * @throws std::invalid_argument for a device that is not virtual, an allocator that there is not, a
 *         workload without a model, or a model that the pipeline refuses
 * @throws out_of_memory, DeviceError as the ranks
 */
[[nodiscard]] PipelineRun run_pipeline(const PipelineCell& cell, const Workload& workload,
                                       std::uint64_t seed, Timeline* timeline = nullptr);

}  // namespace millrace::experiment
