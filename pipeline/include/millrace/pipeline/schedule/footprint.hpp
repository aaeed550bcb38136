#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/memory/policy.hpp"
#include "millrace/pipeline/schedule/training_loop.hpp"

namespace millrace {

/** @brief The allocators that a footprint can be taken of. */
inline constexpr std::array<std::string_view, 3> kAllocatorNames{"torch", "millrace", "driver"};

/** @brief One cell of the table: a training loop on an allocator, with a copy strategy. */
struct FootprintCell {
  std::string device = "virtual:h200";
  std::string allocator = "torch";  ///< one of kAllocatorNames
  std::optional<Policy> policy;     ///< in place of that of `allocator`
  LoopOptions loop;
};

struct FootprintRun {
  std::string allocator;
  CopyMethod method = CopyMethod::side_stream;
  bool modelled = true;  ///< times are modelled; sizes follow from the allocator's decisions
  LoopReport loop;
  MemoryCounters counts;
};

/**
 * @brief Runs one cell on a device of its own. Cells may run at once, each on one thread.
 * @throws std::invalid_argument for a device, or an allocator, that there is not
 * @throws out_of_memory, DeviceError as the loop
 */
[[nodiscard]] FootprintRun run_footprint(const FootprintCell& cell, const Workload& workload,
                                         std::span<const BatchSizes> batches);

}  // namespace millrace
