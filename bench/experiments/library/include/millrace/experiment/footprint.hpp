#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "millrace/experiment/run_recording.hpp"
#include "millrace/experiment/training_loop.hpp"
#include "millrace/memory/policy.hpp"
#include "millrace/observe/ladder.hpp"

namespace millrace::experiment {

/** @brief One cell of the table: a training loop with an allocator and a copy strategy. */
struct FootprintCell {
  std::string device = "virtual:h200";
  std::string allocator = "torch";  ///< one of kAllocatorNames
  std::optional<Policy> policy;     ///< replaces the policy of `allocator`
  LoopOptions loop;
  /// Records the run until it ends or fails. Its notes name the device, the allocator and the
  /// strategy. On a GPU it records only host calls and bytes.
  Timeline* timeline = nullptr;
  RunRecorder recorded{};  ///< empty: nothing is recorded
};

/** @brief The result of running one cell. */
struct FootprintRun {
  std::string allocator;
  CopyMethod method = CopyMethod::side_stream;
  bool modeled = true;  ///< times are modeled; sizes follow from the allocator's decisions
  LoopReport loop;
  MemoryCounters counts;
  /// The ladder of the whole run and all device memory; `reserved` is the peak of `loop.whole`.
  /// Tags: model, activations, features, batch.
  Ladder ladder;
  /// Messages of the race checker for the whole run; std::nullopt on a GPU, where it does not run.
  std::optional<std::vector<std::string>> races;
};

/**
 * @brief Runs one cell on its own device.
 *
 * Cells on virtual devices may run at the same time, each on one thread. Cells on a GPU must run
 * one at a time.
 * @throws std::invalid_argument for an unknown device or allocator
 * @throws out_of_memory, DeviceError like the loop
 */
[[nodiscard]] FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                                         std::span<const InputShape> batches);

}  // namespace millrace::experiment
