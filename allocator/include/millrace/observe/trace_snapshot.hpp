#pragma once

#include <cstdint>
#include <functional>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace {

/** @brief Where a snapshot's stacks and labels come from. */
struct SnapshotText {
  using StackOf = std::function<trace::StackTable::Id(const TracedBlock&, trace::StackTable&)>;
  using LabelOf = std::function<trace::LabelTable::Id(const TracedBlock&, trace::LabelTable&)>;

  StackOf stack{};  ///< nothing: those of the trace, if it has stacks
  LabelOf label{};  ///< nothing: the tags
};

/**
 * @brief What an allocator did and holds at the end, in the form of a PyTorch snapshot, whose
 *        viewers show it.
 *
 * Times are those of the trace, which without a clock are positions. Streams are numbered from 0
 * in the order of their slots. Labels are the blocks' tags. The trace's marks are annotations: each
 * begins a range that ends with the next.
 * Segments that touch each other, as those of a growable range do, are one expandable segment. A
 * freed block is complete when the trace knows it to be, or before something else is in its place:
 * the allocator may give memory to a stream that is ordered after its last use, and PyTorch's form
 * has no word for that.
 * @param trace   of the whole life of the allocator, if possible: blocks from before it are left
 *                out
 * @param device  number of the device
 */
[[nodiscard]] trace::TorchSnapshot torch_snapshot(const AllocationTrace& trace,
                                                  std::uint32_t device = 0,
                                                  const SnapshotText& text = {});

}  // namespace millrace
