#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace {

/** @brief The data of a snapshot that are not in the trace. */
struct SnapshotOptions {
  using StackOf = std::function<trace::StackTable::Id(const TracedBlock&, trace::StackTable&)>;
  using StreamNumber = std::function<std::int64_t(StreamId)>;
  using LabelOf = std::function<trace::LabelTable::Id(const TracedBlock&, trace::LabelTable&)>;

  StackOf stack{};  ///< empty: the stacks of the trace, if it has stacks
  LabelOf label{};  ///< empty: the tags
  /// The number of a stream in the snapshot, where 0 is the default stream; empty: the number of
  /// its slot plus 1.
  StreamNumber stream{};
  /// Marks in addition to the trace's, in order. Each is a range that ends where the next begins.
  std::vector<AllocationTrace::Mark> marks{};
  /// Whether the allocator grows ranges. Then adjacent segments are parts of one segment.
  bool growable_ranges = false;
};

/**
 * @brief An allocator's history and its memory at the end, as a PyTorch snapshot for PyTorch's
 *        viewers.
 *
 * Times are the trace's times, which are positions without a clock. Labels are the blocks' tags.
 * The trace's marks are annotations: each begins a range that ends with the next. The stream of a
 * segment is the stream of its first block; 0 if it never had a block. Segments of a growable range
 * are one expandable segment, with the stream of the first of them. These are segments that ever
 * had a block in common, and with `growable_ranges` all adjacent segments. A free is complete when
 * the trace proves it, at the latest before another block takes its place: the allocator may give
 * memory to a stream that is ordered after the last use, which PyTorch's format cannot express.
 * @param trace    trace of the allocator's whole life, if possible: earlier blocks are left out
 * @param device   number of the device
 * @param options  numbers of streams, and sources of stacks and labels
 */
[[nodiscard]] trace::TorchSnapshot torch_snapshot(const AllocationTrace& trace,
                                                  std::uint32_t device = 0,
                                                  const SnapshotOptions& options = {});

}  // namespace millrace
