#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/memory/policy.hpp"
#include "millrace/observe/ladder.hpp"
#include "millrace/pipeline/schedule/training_loop.hpp"

namespace millrace {

/** @brief The allocators that a footprint can be taken of. */
inline constexpr std::array<std::string_view, 3> kAllocatorNames{"torch", "millrace", "driver"};

/** @brief What a footprint can be taken on. */
struct FootprintDevice {
  std::string name;   ///< "virtual:h200", "cuda:0"
  std::string title;  ///< "NVIDIA H200 SXM, 141 GB HBM3e"
  std::size_t memory_bytes;
  bool modelled;  ///< times are modelled, not measured
};

/**
 * @brief Looks a device up by its name.
 * @throws std::invalid_argument that lists the devices there are; for a GPU, why there is none
 */
[[nodiscard]] FootprintDevice footprint_device(std::string_view name);

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

}  // namespace millrace
