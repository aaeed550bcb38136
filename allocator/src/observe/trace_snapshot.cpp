#include "millrace/observe/trace_snapshot.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace millrace {
namespace {

using trace::BlockState;
using trace::TorchAction;
using trace::TorchBlock;
using trace::TorchEvent;
using trace::TorchSegment;

constexpr std::size_t kMostSmall = std::size_t{2} << 20;  // PyTorch's segments of small blocks

/** What the blocks of a trace tell about its segments. */
struct SegmentUse {
  /// By segment: the stream of the first block in it, for which it was acquired; 0 without one. A
  /// segment that was used before the trace began has that of the first block that the trace has.
  std::vector<std::int64_t> streams;
  /// Begins of blocks that did not fit into the segment in which they began.
  std::vector<std::uintptr_t> beyond;
};

SegmentUse use_of_segments(const AllocationTrace& trace) {
  enum class What : std::uint8_t { released, acquired, allocated };
  struct Step {
    TracePosition position = 0;
    What what = What::allocated;
    std::size_t index = 0;
  };
  std::vector<Step> steps;
  for (std::size_t i = 0; i < trace.segments().size(); ++i) {
    const TracedSegment& segment = trace.segments()[i];
    steps.push_back({segment.acquired, What::acquired, i});
    if (segment.released != kNever) steps.push_back({segment.released, What::released, i});
  }
  for (std::size_t i = 0; i < trace.blocks().size(); ++i)
    steps.push_back({trace.blocks()[i].allocated, What::allocated, i});
  std::ranges::stable_sort(steps, [](const Step& a, const Step& b) {
    return std::pair{a.position, a.what} < std::pair{b.position, b.what};
  });
  SegmentUse use{.streams = std::vector<std::int64_t>(trace.segments().size()), .beyond = {}};
  std::map<std::uintptr_t, std::size_t> held;
  std::vector<bool> used(trace.segments().size());
  for (const Step& step : steps) {
    if (step.what != What::allocated) {
      const std::uintptr_t base = trace.segments()[step.index].base;
      if (step.what == What::acquired) {
        held[base] = step.index;
      } else {
        held.erase(base);
      }
      continue;
    }
    const TracedBlock& block = trace.blocks()[step.index];
    const std::uintptr_t end = block.address + block.bytes;
    const auto end_of = [&](auto at) { return at->first + trace.segments()[at->second].bytes; };
    auto at = held.upper_bound(block.address);
    if (at != held.begin() && end_of(std::prev(at)) > block.address) --at;
    if (at != held.end() && at->first <= block.address && end_of(at) < end)
      use.beyond.push_back(block.address);
    for (; at != held.end() && at->first < end; ++at) {
      if (used[at->second]) continue;
      used[at->second] = true;
      use.streams[at->second] = static_cast<std::int64_t>(block.owner.slot);
    }
  }
  return use;
}

/**
 * The addresses of growable ranges: of segments that touched others, where a block went from one
 * into the next. Segments of a driver touch each other, too, but no block goes beyond its segment.
 */
class Ranges {
 public:
  Ranges(std::span<const TracedSegment> segments, const std::vector<std::uintptr_t>& beyond) {
    std::map<std::uintptr_t, std::uintptr_t> ends;  // the furthest, by base
    for (const TracedSegment& segment : segments) {
      std::uintptr_t& end = ends[segment.base];
      end = std::max(end, segment.base + segment.bytes);
    }
    std::map<std::uintptr_t, std::uintptr_t> touching;
    std::uintptr_t begin = 0, end = 0;
    for (const auto& [base, furthest] : ends) {
      if (base > end || end == 0) begin = base;
      end = std::max(end, furthest);
      touching[begin] = end;
    }
    for (const std::uintptr_t address : beyond) {
      const auto after = touching.upper_bound(address);
      if (after != touching.begin()) ranges_.insert(*std::prev(after));
    }
  }

  [[nodiscard]] bool contain(std::uintptr_t address) const {
    const auto after = ranges_.upper_bound(address);
    return after != ranges_.begin() && address < std::prev(after)->second;
  }

 private:
  std::map<std::uintptr_t, std::uintptr_t> ranges_;  // begin and end
};

/** Goes through a trace in order, and knows which freed blocks are not complete yet. */
class Snapshotter {
 public:
  Snapshotter(const AllocationTrace& trace, std::uint32_t device, const SnapshotText& text)
      : trace_(trace),
        device_(device),
        text_(text),
        use_(use_of_segments(trace)),
        ranges_(trace.segments(), use_.beyond) {
    snapshot_.traces.resize(device + 1);
  }

  trace::TorchSnapshot run() {
    for (const Step& step : steps()) apply(step);
    write_segments();
    write_marks();
    return std::move(snapshot_);
  }

 private:
  enum class What : std::uint8_t { completed, released, acquired, freed, allocated };
  struct Step {
    TracePosition position = 0;
    What what = What::allocated;
    std::size_t index = 0;  // of the block or the segment
  };

  [[nodiscard]] std::vector<Step> steps() const {
    std::vector<Step> steps;
    const auto add = [&](TracePosition position, What what, std::size_t index) {
      if (position != kNever) steps.push_back({position, what, index});
    };
    for (std::size_t i = 0; i < trace_.segments().size(); ++i) {
      add(trace_.segments()[i].acquired, What::acquired, i);
      add(trace_.segments()[i].released, What::released, i);
    }
    for (std::size_t i = 0; i < trace_.blocks().size(); ++i) {
      const TracedBlock& block = trace_.blocks()[i];
      add(block.allocated, What::allocated, i);
      add(block.freed, What::freed, i);
      if (block.freed != kNever) add(completed_from(block), What::completed, i);
    }
    // At one position, what is known to be complete comes first, as where the allocator looks
    // before it serves; but no block completes before it is freed.
    std::ranges::stable_sort(steps, [](const Step& a, const Step& b) {
      return std::pair{a.position, a.what} < std::pair{b.position, b.what};
    });
    return steps;
  }

  // Uses on the owner's stream do not count: PyTorch does not wait for them.
  [[nodiscard]] TracePosition completed_from(const TracedBlock& block) const {
    TracePosition from = block.freed + 1;
    for (const Point point : block.free_points) {
      if (point.stream != block.owner)
        from = std::max(from, trace_.ordering().completed_from(point));
    }
    return from;
  }

  void apply(const Step& step) {
    switch (step.what) {
      case What::acquired:
      case What::released: {
        const TracedSegment& segment = trace_.segments()[step.index];
        const bool is_range = ranges_.contain(segment.base), got = step.what == What::acquired;
        if (!got) complete_within(segment.base, segment.base + segment.bytes, step.position);
        add({.action = is_range ? (got ? TorchAction::segment_map : TorchAction::segment_unmap)
                                : (got ? TorchAction::segment_alloc : TorchAction::segment_free),
             .address = segment.base,
             .bytes = segment.bytes,
             .stream = use_.streams[step.index]},
            step.position);
        return;
      }
      case What::allocated: {
        const TracedBlock& block = trace_.blocks()[step.index];
        complete_within(block.address, block.address + block.bytes, step.position);
        held_[block.address] = {step.index, BlockState::allocated};
        add_event(TorchAction::alloc, block, step.position);
        return;
      }
      case What::freed: {
        const TracedBlock& block = trace_.blocks()[step.index];
        held_[block.address].state = BlockState::pending_free;
        add_event(TorchAction::free_requested, block, step.position);
        return;
      }
      case What::completed: {
        const TracedBlock& block = trace_.blocks()[step.index];
        const auto held = held_.find(block.address);
        if (held != held_.end() && held->second.index == step.index) complete(held, step.position);
        return;
      }
    }
  }

  struct Held {
    std::size_t index = 0;
    BlockState state = BlockState::allocated;
  };
  using HeldBlocks = std::map<std::uintptr_t, Held>;

  HeldBlocks::iterator complete(HeldBlocks::iterator held, TracePosition position) {
    add_event(TorchAction::free_completed, trace_.blocks()[held->second.index], position);
    return held_.erase(held);
  }

  void complete_within(std::uintptr_t begin, std::uintptr_t end, TracePosition position) {
    auto held = held_.upper_bound(begin);
    if (held != held_.begin()) --held;
    while (held != held_.end() && held->first < end) {
      const TracedBlock& block = trace_.blocks()[held->second.index];
      const bool overlaps = block.address + block.bytes > begin;
      if (overlaps && held->second.state == BlockState::pending_free) {
        held = complete(held, position);
      } else {
        ++held;
      }
    }
  }

  void add(TorchEvent event, TracePosition position) {
    event.time_us = trace_.time_us(position);
    snapshot_.traces[device_].push_back(event);
  }

  void add_event(TorchAction action, const TracedBlock& block, TracePosition position) {
    add({.action = action,
         .address = block.address,
         .bytes = block.requested,
         .stream = static_cast<std::int64_t>(block.owner.slot),
         .stack = stack_of(block),
         .label = label_of(block)},
        position);
  }

  trace::StackTable::Id stack_of(const TracedBlock& block) {
    if (text_.stack) return text_.stack(block, snapshot_.stacks);
    if (block.stack == CallStacks::kNone || trace_.stacks() == nullptr)
      return trace::StackTable::kNone;
    const auto [known, fresh] = stacks_.try_emplace(block.stack, trace::StackTable::kNone);
    if (fresh) known->second = trace_.stacks()->add_to(snapshot_.stacks, block.stack);
    return known->second;
  }

  trace::LabelTable::Id label_of(const TracedBlock& block) {
    if (text_.label) return text_.label(block, snapshot_.labels);
    const std::string& tag = trace_.tag_name(block.tag);
    return tag == "untagged" ? trace::LabelTable::kNone : snapshot_.labels.add(tag);
  }

  void write_marks() {
    const auto add = [&](const AllocationTrace::Mark& mark, bool begins, TracePosition position) {
      snapshot_.marks.push_back({.name = snapshot_.labels.add(mark.name),
                                 .begins = begins,
                                 .device = device_,
                                 .time_us = trace_.time_us(position)});
    };
    for (std::size_t i = 0; i < trace_.marks().size(); ++i) {
      if (i > 0) add(trace_.marks()[i - 1], false, trace_.marks()[i].position);
      add(trace_.marks()[i], true, trace_.marks()[i].position);
    }
    if (!trace_.marks().empty()) add(trace_.marks().back(), false, trace_.position());
  }

  void write_segments() {
    struct Piece {
      std::uintptr_t end = 0;
      std::int64_t stream = 0;
    };
    std::map<std::uintptr_t, Piece> pieces;  // what is held, by its begin
    for (std::size_t i = 0; i < trace_.segments().size(); ++i) {
      const TracedSegment& segment = trace_.segments()[i];
      if (segment.released == kNever)
        pieces[segment.base] = {segment.base + segment.bytes, use_.streams[i]};
    }
    for (auto piece = pieces.begin(); piece != pieces.end();) {
      TorchSegment segment{
          .device = device_, .address = piece->first, .stream = piece->second.stream};
      std::uintptr_t end = piece->second.end;
      segment.expandable = ranges_.contain(segment.address);
      for (++piece; segment.expandable && piece != pieces.end() && piece->first == end; ++piece)
        end = piece->second.end;
      segment.bytes = end - segment.address;
      segment.large = segment.bytes > kMostSmall;
      fill(segment, end);
      snapshot_.segments.push_back(std::move(segment));
    }
  }

  void fill(TorchSegment& segment, std::uintptr_t end) {
    std::uintptr_t at = segment.address;
    const auto add = [&](std::uintptr_t until, TorchBlock block) {
      block.address = at;
      block.bytes = until - at;
      if (until > at) segment.blocks.push_back(block);
      at = std::max(at, until);
    };
    for (auto held = held_.lower_bound(segment.address); held != held_.end() && held->first < end;
         ++held) {
      const TracedBlock& block = trace_.blocks()[held->second.index];
      add(block.address, {});
      add(std::min(block.address + block.bytes, end), {.requested = block.requested,
                                                       .state = held->second.state,
                                                       .stack = stack_of(block),
                                                       .label = label_of(block)});
    }
    add(end, {});
  }

  const AllocationTrace& trace_;
  const std::uint32_t device_;
  const SnapshotText& text_;
  const SegmentUse use_;
  const Ranges ranges_;
  trace::TorchSnapshot snapshot_;
  HeldBlocks held_;
  std::unordered_map<CallStacks::Id, trace::StackTable::Id> stacks_;
};

}  // namespace

trace::TorchSnapshot torch_snapshot(const AllocationTrace& trace, std::uint32_t device,
                                    const SnapshotText& text) {
  return Snapshotter{trace, device, text}.run();
}

}  // namespace millrace
