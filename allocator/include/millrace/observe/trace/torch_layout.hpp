#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/trace/torch_snapshot.hpp"
#include "millrace/observe/trace/warnings.hpp"

namespace millrace::trace {

/** @brief Where everything lies in PyTorch's allocator on one device at one moment. */
struct TorchLayout {
  std::vector<TorchSegment> segments;  ///< by address, each filled with blocks from end to end
  /// Blocks in use at that moment that lie in no segment, if the snapshot does not add up.
  std::vector<TorchBlock> unplaced;
};

/**
 * @brief The layout at the start of a device's trace: the segments and blocks of the snapshot, with
 * the events undone from the last to the first.
 *
 * Free neighbours in a segment are always merged in PyTorch, so free blocks follow from the ones in
 * use, and of those the addresses are certain. A size is certain too, from the rules of rounding
 * and splitting, except for large blocks (over 1 MiB, not expandable) that were already there at
 * the start and are freed in the trace: an unsplit rest of up to 1 MiB at their end may look free.
 * It is taken as part of the block if at any time of the trace nothing else could have been there,
 * or if otherwise PyTorch would have chosen the free block that follows; so PyTorch's rules,
 * applied to this layout, give the decisions of the trace.
 *
 * Where snapshot and trace contradict each other, the earlier moment is believed, and the
 * contradiction noted.
 *
 * @param device    index into `snapshot.traces`; without a trace the layout is the snapshot's own
 * @param warnings  gets what does not add up
 */
[[nodiscard]] TorchLayout initial_layout(const TorchSnapshot& snapshot, std::uint32_t device,
                                         Warnings& warnings);

}  // namespace millrace::trace
