#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/training_device.hpp"

namespace millrace::cli {

/** @brief Where one rank's device memory went, in bytes. */
struct RankMemory {
  std::size_t reserved = 0, active = 0, allocated = 0;  ///< peaks
  std::size_t live = 0, rounding = 0, streams = 0, packing = 0, policy = 0;
  std::vector<std::string> races;  ///< found by this rank's checker
};

[[nodiscard]] RankMemory memory_of(const TrainingAccounting& accounting);
/** @brief Gathers the memory of all ranks on rank 0. Each rank calls it with its own accounting. */
[[nodiscard]] std::vector<RankMemory> memory_of_ranks(ProcessGroup& group, TrainingDevice& device,
                                                      const TrainingAccounting& accounting);

}  // namespace millrace::cli
