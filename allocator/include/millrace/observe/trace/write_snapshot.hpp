#pragma once

#include <string>
#include <string_view>

#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::trace {

/**
 * @brief The bytes of a snapshot's file, as torch.cuda.memory._dump_snapshot writes it: a pickle of
 *        plain data, in protocol 2.
 *
 * Each stack is in it once. A label is the key `user_metadata` of a block or event, and the
 * `category` of an allocation, by which the viewer chooses colors.
 *
 * PyTorch's viewer (pytorch.org/memory_viz) and its script `_memory_viz.py` read it, and so does
 * `read_trace`, which finds the same snapshot. Events that its reader did not know are left out.
 */
[[nodiscard]] std::string write_torch_snapshot(const TorchSnapshot& snapshot);

/** @brief The first bytes of each file that `write_torch_snapshot` makes. */
inline constexpr std::string_view kTorchSnapshotBeginning{"\x80\x02}(X\x08\0\0\0segments", 17};

/** @brief The snapshot that a log was read from, with its stacks and labels: for programs that read
 *         a snapshot, change it, and write it again with `write_torch_snapshot`.
 *  @throws std::bad_optional_access if the log was read from another format */
[[nodiscard]] TorchSnapshot whole_snapshot(const AllocationLog& log);

/** @brief Adds the segments, events and annotations of `more`, which has other devices, with their
 * stacks and labels. Annotations are then in the order of their times. Pinned host memory and
 * settings of `more` are not added. */
void append(TorchSnapshot& snapshot, const TorchSnapshot& more);

}  // namespace millrace::trace
