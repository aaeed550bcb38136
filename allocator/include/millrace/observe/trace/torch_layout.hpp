#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/trace/torch_snapshot.hpp"
#include "millrace/observe/trace/warnings.hpp"

namespace millrace::trace {

/** @brief The layout of PyTorch's allocator on one device at one time. */
struct TorchLayout {
  std::vector<TorchSegment> segments;  ///< by address, each filled with blocks from end to end
  /// Blocks in use that are in no segment, if the snapshot contradicts itself.
  std::vector<TorchBlock> unplaced;
};

/**
 * @brief Computes the layout at the start of a device's trace: the segments and blocks of the
 *        snapshot, with the events undone from the last to the first.
 *
 * PyTorch always merges free neighbors in a segment, so the free blocks follow from the blocks in
 * use, whose addresses are certain. Sizes are certain too, by the rules of rounding and splitting,
 * except for large blocks (over 1 MiB, not expandable) that were live at the start and are freed in
 * the trace: an unsplit remainder of up to 1 MiB at their end may look free. The remainder counts
 * as part of the block if at some time in the trace nothing else could have been there, or if
 * PyTorch would otherwise have chosen the free block that follows. PyTorch's rules, applied to this
 * layout, therefore give the decisions of the trace.
 *
 * If snapshot and trace contradict each other, the earlier time is trusted, and a warning is added.
 *
 * @param snapshot  the snapshot
 * @param device    index into `snapshot.traces`; without a trace the layout is the snapshot's own
 * @param warnings  receives the contradictions
 */
[[nodiscard]] TorchLayout initial_layout(const TorchSnapshot& snapshot, std::uint32_t device,
                                         Warnings& warnings);

}  // namespace millrace::trace
