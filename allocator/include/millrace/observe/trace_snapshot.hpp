#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace {

/** @brief What a snapshot needs to know beyond the trace. */
struct SnapshotOptions {
  using StackOf = std::function<trace::StackTable::Id(const TracedBlock&, trace::StackTable&)>;
  using StreamNumber = std::function<std::int64_t(StreamId)>;
  using LabelOf = std::function<trace::LabelTable::Id(const TracedBlock&, trace::LabelTable&)>;

  StackOf stack{};  ///< nothing: those of the trace, if it has stacks
  LabelOf label{};  ///< nothing: the tags
  /// The number of a stream in the snapshot, where 0 is the default stream; nothing: the number of
  /// its slot and 1.
  StreamNumber stream{};
  /// Marks beside those of the trace, in order: each is a range that ends where the next begins.
  std::vector<AllocationTrace::Mark> marks{};
  /// Whether the allocator grows ranges: then segments that touch each other are parts of one.
  bool growable_ranges = false;
};

/**
 * @brief What an allocator did and holds at the end, in the form of a PyTorch snapshot, whose
 *        viewers show it.
 *
 * Times are those of the trace, which without a clock are positions. Labels are the blocks' tags.
 * The trace's marks are annotations: each begins a range that ends with the next. The stream of a
 * segment is that of its first block; 0 if it never had one. Segments of a growable range are one
 * expandable segment, with the stream of the first of them: those that ever had a block in common,
 * and with `growable_ranges` all that touch each other. A freed block is complete when the trace
 * knows it to be, or before something else is in its place: the allocator may give memory to a
 * stream that is ordered after its last use, and PyTorch's form has no word for that.
 * @param trace    of the whole life of the allocator, if possible: blocks from before it are left
 *                 out
 * @param device   number of the device
 * @param options  numbers of streams, and where stacks and labels come from
 */
[[nodiscard]] trace::TorchSnapshot torch_snapshot(const AllocationTrace& trace,
                                                  std::uint32_t device = 0,
                                                  const SnapshotOptions& options = {});

}  // namespace millrace
