#include "millrace/observe/trace_snapshot.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/trace_steps.hpp"

namespace millrace {
namespace {

using trace::BlockState;
using trace::TorchAction;
using trace::TorchBlock;
using trace::TorchEvent;
using trace::TorchSegment;

constexpr std::size_t kMostSmall = std::size_t{2} << 20;  // PyTorch's segments of small blocks

/** Facts about the segments of a trace that follow from its blocks. */
class SegmentFacts {
 public:
  /** @param touching  whether adjacent segments belong to one range */
  SegmentFacts(std::span<const TracedSegment> segments, bool touching)
      : segments_(segments), touching_(touching), facts_(segments.size()) {}

  /** The stream of the segment's first block; invalid if it never had a block. */
  [[nodiscard]] StreamId stream(std::size_t segment) const { return facts_[segment].stream; }
  /** Whether the segment is a part of a growable range. */
  [[nodiscard]] bool in_range(std::size_t segment) const { return facts_[segment].in_range; }
  /** Whether the segment and the one before it belong to the same range. */
  [[nodiscard]] bool continues(std::size_t segment) const { return facts_[segment].continues; }
  [[nodiscard]] bool any_range() const {
    return std::ranges::any_of(facts_, [](const Fact& fact) { return fact.in_range; });
  }

  void acquired(std::size_t segment) {
    const auto at = present_.insert_or_assign(segments_[segment].base, segment).first;
    if (!touching_) return;
    const auto after = std::next(at);
    if (at != present_.begin() && end_of(std::prev(at)->second) == at->first)
      join(std::prev(at)->second, segment);
    if (after != present_.end() && end_of(segment) == after->first) join(segment, after->second);
  }
  void released(std::size_t segment) { present_.erase(segments_[segment].base); }
  void allocated(const TracedBlock& block) {
    auto at = present_.upper_bound(block.address);
    if (at != present_.begin()) --at;
    std::optional<std::size_t> previous;
    for (; at != present_.end() && at->first < block.address + block.bytes; ++at) {
      if (end_of(at->second) <= block.address) continue;
      StreamId& stream = facts_[at->second].stream;
      if (!stream.valid()) stream = block.owner;
      if (previous) join(*previous, at->second);
      previous = at->second;
    }
  }

 private:
  struct Fact {
    StreamId stream{};
    bool in_range = false, continues = false;
  };

  [[nodiscard]] std::uintptr_t end_of(std::size_t segment) const {
    return segments_[segment].base + segments_[segment].bytes;
  }
  void join(std::size_t segment, std::size_t next) {
    facts_[segment].in_range = facts_[next].in_range = facts_[next].continues = true;
  }

  std::span<const TracedSegment> segments_;
  const bool touching_;
  std::vector<Fact> facts_;
  std::map<std::uintptr_t, std::size_t> present_;  // by address
};

/** Goes through a trace in order and keeps the freed blocks that are not complete yet. */
class Snapshotter {
 public:
  Snapshotter(const AllocationTrace& trace, std::uint32_t device, const SnapshotOptions& options)
      : trace_(trace),
        device_(device),
        options_(options),
        facts_(trace.segments(), options.growable_ranges) {
    snapshot_.traces.resize(device + 1);
    snapshot_.of_millrace = true;
  }

  trace::TorchSnapshot run() {
    const std::vector<Step> all = steps();
    for (const Step& step : all) learn(step);
    snapshot_.settings.expandable_segments = facts_.any_range();
    for (const Step& step : all) apply(step);
    write_segments();
    write_marks();
    return std::move(snapshot_);
  }

 private:
  enum class Kind : std::uint8_t { completed, released, acquired, freed, allocated };
  struct Step {
    TracePosition position = 0;
    Kind what = Kind::allocated;
    std::size_t index = 0;  // the block or the segment
  };

  [[nodiscard]] std::vector<Step> steps() const {
    std::vector<Step> steps;
    trace_steps::add_segments(steps, trace_, Kind::acquired, Kind::released);
    // Uses on the owner's stream do not count: PyTorch does not wait for them.
    for (std::size_t i = 0; i < trace_.blocks().size(); ++i) {
      const TracedBlock& block = trace_.blocks()[i];
      trace_steps::add(steps, block.allocated, Kind::allocated, i);
      trace_steps::add(steps, block.freed, Kind::freed, i);
      if (block.freed == kNever) continue;
      const auto counts = [&](Point point) { return point.stream != block.owner; };
      const TracePosition completed = trace_steps::completed_from(trace_, block, counts);
      trace_steps::add(steps, completed, Kind::completed, i);
    }
    // At one position, completions come first, because the allocator polls before it serves. But no
    // block completes before it is freed.
    trace_steps::sort(steps);
    return steps;
  }

  void learn(const Step& step) {
    if (step.what == Kind::acquired) facts_.acquired(step.index);
    if (step.what == Kind::released) facts_.released(step.index);
    if (step.what == Kind::allocated) facts_.allocated(trace_.blocks()[step.index]);
  }

  [[nodiscard]] std::int64_t number_of(StreamId stream) const {
    if (!stream.valid()) return 0;
    return options_.stream ? options_.stream(stream) : std::int64_t{stream.slot} + 1;
  }

  void apply(const Step& step) {
    switch (step.what) {
      case Kind::acquired:
      case Kind::released: {
        const TracedSegment& segment = trace_.segments()[step.index];
        const bool is_range = facts_.in_range(step.index), got = step.what == Kind::acquired;
        if (!got) complete_within(segment.base, segment.base + segment.bytes, step.position);
        add({.action = is_range ? (got ? TorchAction::segment_map : TorchAction::segment_unmap)
                                : (got ? TorchAction::segment_alloc : TorchAction::segment_free),
             .address = segment.base,
             .bytes = segment.bytes,
             .stream = number_of(facts_.stream(step.index))},
            step.position);
        return;
      }
      case Kind::allocated: {
        const TracedBlock& block = trace_.blocks()[step.index];
        complete_within(block.address, block.address + block.bytes, step.position);
        held_[block.address] = {step.index, BlockState::allocated};
        add_event(TorchAction::alloc, block, step.position);
        return;
      }
      case Kind::freed: {
        const TracedBlock& block = trace_.blocks()[step.index];
        held_[block.address].state = BlockState::pending_free;
        add_event(TorchAction::free_requested, block, step.position);
        return;
      }
      case Kind::completed: {
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
         .stream = number_of(block.owner),
         .stack = stack_of(block),
         .label = label_of(block)},
        position);
  }

  trace::StackTable::Id stack_of(const TracedBlock& block) {
    if (options_.stack) return options_.stack(block, snapshot_.stacks);
    if (block.stack == CallStacks::kNone || trace_.stacks() == nullptr)
      return trace::StackTable::kNone;
    const auto [known, fresh] = stacks_.try_emplace(block.stack, trace::StackTable::kNone);
    if (fresh) known->second = trace_.stacks()->add_to(snapshot_.stacks, block.stack);
    return known->second;
  }

  trace::LabelTable::Id label_of(const TracedBlock& block) {
    if (options_.label) return options_.label(block, snapshot_.labels);
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
    const auto add_all = [&](std::span<const AllocationTrace::Mark> marks) {
      for (std::size_t i = 0; i < marks.size(); ++i) {
        if (i > 0) add(marks[i - 1], false, marks[i].position);
        add(marks[i], true, marks[i].position);
      }
      if (!marks.empty()) add(marks.back(), false, trace_.position());
    };
    add_all(trace_.marks());
    add_all(options_.marks);
    std::ranges::stable_sort(snapshot_.marks, {}, &trace::TorchMark::time_us);
  }

  void write_segments() {
    std::map<std::uintptr_t, std::size_t> pieces;  // reserved memory, by address
    for (std::size_t i = 0; i < trace_.segments().size(); ++i) {
      const TracedSegment& segment = trace_.segments()[i];
      if (segment.released == kNever) pieces[segment.base] = i;
    }
    const auto end_of = [&](auto piece) {
      return piece->first + trace_.segments()[piece->second].bytes;
    };
    for (auto piece = pieces.begin(); piece != pieces.end();) {
      TorchSegment segment{.device = device_,
                           .address = piece->first,
                           .stream = number_of(facts_.stream(piece->second))};
      segment.expandable = facts_.in_range(piece->second);
      std::uintptr_t end = end_of(piece);
      for (++piece; piece != pieces.end() && piece->first == end; ++piece) {
        if (!facts_.continues(piece->second)) break;
        end = end_of(piece);
      }
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
  const SnapshotOptions& options_;
  SegmentFacts facts_;
  trace::TorchSnapshot snapshot_;
  HeldBlocks held_;
  std::unordered_map<CallStacks::Id, trace::StackTable::Id> stacks_;
};

}  // namespace

trace::TorchSnapshot torch_snapshot(const AllocationTrace& trace, std::uint32_t device,
                                    const SnapshotOptions& options) {
  return Snapshotter{trace, device, options}.run();
}

}  // namespace millrace
