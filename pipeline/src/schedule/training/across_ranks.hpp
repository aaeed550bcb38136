#pragma once

#include <cstdint>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"

/// @file
/// Communication between the trainers of several ranks. Every rank calls each of these functions.

namespace millrace {

/** @brief Collects the numbers of all ranks on rank 0, in order. Waits for the stream. */
[[nodiscard]] std::vector<float> gathered(ProcessGroup& group, const std::vector<float>& numbers,
                                          Allocator& memory, Stream& stream);
/** @brief Sends numbers of rank 0 to every rank. */
[[nodiscard]] Evaluation received_from_first(ProcessGroup& group, const Evaluation& known);
/** @brief Replaces both by their sums over the ranks, in order of ranks. */
void add_up(ProcessGroup& group, double& sum, std::uint64_t& examples);

}  // namespace millrace
