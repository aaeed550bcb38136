#pragma once

#include <cstdint>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/allocator.hpp"
#include "millrace/pipeline/collective/process_group.hpp"
#include "millrace/pipeline/schedule/trainer.hpp"

/// @file
/// What trainers of several ranks tell each other. Every rank calls each of these.

namespace millrace {

/** @brief The numbers of all ranks, in their order; on rank 0. Waits for the stream. */
[[nodiscard]] std::vector<float> gathered(ProcessGroup& group, const std::vector<float>& numbers,
                                          Allocator& memory, Stream& stream);
/** @brief What rank 0 knows, on every rank. */
[[nodiscard]] Evaluation told_by_first(ProcessGroup& group, const Evaluation& known);
/** @brief Replaces both by their sums over the ranks, in their order. */
void add_up(ProcessGroup& group, double& sum, std::uint64_t& examples);

}  // namespace millrace
