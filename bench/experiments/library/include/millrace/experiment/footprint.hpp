#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/experiment/training_loop.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/observe/ladder.hpp"

namespace millrace::experiment {

/** @brief One cell of the table: a training loop on an allocator, with a copy strategy. */
struct FootprintCell {
  std::string device = "virtual:h200";
  std::string allocator = "torch";  ///< one of kAllocatorNames
  std::optional<Policy> policy;     ///< in place of that of `allocator`
  LoopOptions loop;
  /** Records the run, and is stopped when it ends or fails; it has the device, the allocator and
   * the strategy in its notes. On a GPU what streams did is not recorded, only host calls and
   * bytes. */
  Timeline* timeline = nullptr;
};

struct FootprintRun {
  std::string allocator;
  CopyMethod method = CopyMethod::side_stream;
  bool modelled = true;  ///< times are modelled; sizes follow from the allocator's decisions
  LoopReport loop;
  MemoryCounters counts;
  /** Of the whole run and all device memory; `reserved` is the peak of `loop.whole`. Tags: model,
   * activations, features, batch. */
  Ladder ladder;
  /** What the race checker says of the whole run: nothing, if all is in order. Not looked for on a
   * GPU, where that takes time. */
  std::optional<std::vector<std::string>> races;
};

/**
 * @brief Runs one cell on a device of its own. Cells on virtual devices may run at once, each on
 *        one thread; on a GPU, one at a time.
 * @throws std::invalid_argument for a device, or an allocator, that there is not
 * @throws out_of_memory, DeviceError as the loop
 */
[[nodiscard]] FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                                         std::span<const InputShape> batches);

}  // namespace millrace::experiment
