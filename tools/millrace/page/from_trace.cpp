#include "page/from_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "page/free_memory.hpp"
#include "page/trace_reuse.hpp"

namespace millrace::cli {
namespace {

double microseconds(Nanoseconds time) {
  return std::chrono::duration<double, std::micro>{time}.count();
}

/// Positions of a trace count from 1; events of a page count from 0.
PageEvent event_of(TracePosition position) { return static_cast<PageEvent>(position - 1); }

/// Derives the streams of segments from the blocks, as in a snapshot: a segment belongs to the
/// stream of its first block, unless streams share free memory.
class SegmentStreams {
 public:
  explicit SegmentStreams(std::span<const TracedSegment> segments)
      : segments_(segments), streams_(segments.size()) {}

  void acquired(std::size_t segment) {
    present_.insert_or_assign(segments_[segment].base, segment);
  }
  void released(std::size_t segment) {
    const auto at = present_.find(segments_[segment].base);
    if (at != present_.end() && at->second == segment) present_.erase(at);
  }
  void allocated(const TracedBlock& block) {
    auto at = present_.upper_bound(block.address);
    if (at != present_.begin()) --at;
    for (; at != present_.end() && at->first < block.address + block.bytes; ++at) {
      if (at->first + segments_[at->second].bytes <= block.address) continue;
      StreamId& stream = streams_[at->second];
      if (!stream.valid()) stream = block.owner;
      ++placed_;
      if (stream != block.owner) ++shared_;
    }
  }

  [[nodiscard]] StreamId stream(std::size_t segment) const { return streams_[segment]; }
  /** Whether streams received memory from segments of other streams. */
  [[nodiscard]] bool are_shared() const noexcept { return shared_ > 0; }

 private:
  std::span<const TracedSegment> segments_;
  std::vector<StreamId> streams_;
  std::map<std::uintptr_t, std::size_t> present_;  // by address
  std::uint64_t placed_ = 0, shared_ = 0;
};

/// The events of a trace that change memory, in order.
struct TraceStep {
  enum class What : std::uint8_t { released, acquired, allocated, freed };
  TracePosition position = 0;
  What what = What::allocated;
  std::size_t index = 0;  // index of the block or the segment
};

std::vector<TraceStep> steps_of(const AllocationTrace& trace) {
  std::vector<TraceStep> steps;
  const auto add = [&](TracePosition position, TraceStep::What what, std::size_t index) {
    if (position != kNever) steps.push_back({position, what, index});
  };
  for (std::size_t i = 0; i < trace.segments().size(); ++i) {
    add(trace.segments()[i].acquired, TraceStep::What::acquired, i);
    add(trace.segments()[i].released, TraceStep::What::released, i);
  }
  for (std::size_t i = 0; i < trace.blocks().size(); ++i) {
    add(trace.blocks()[i].allocated, TraceStep::What::allocated, i);
    add(trace.blocks()[i].freed, TraceStep::What::freed, i);
  }
  std::ranges::stable_sort(steps, [](const TraceStep& a, const TraceStep& b) {
    return std::pair{a.position, a.what} < std::pair{b.position, b.what};
  });
  return steps;
}

class Filler {
 public:
  Filler(const AllocationTrace& trace, const experiment::RunRecording* recording,
         const std::map<StreamId, std::string>& names)
      : trace_(trace),
        recording_(recording),
        names_(names),
        steps_(steps_of(trace)),
        segments_(trace.segments()) {
    for (const TraceStep& step : steps_) {
      if (step.what == TraceStep::What::acquired) segments_.acquired(step.index);
      if (step.what == TraceStep::What::released) segments_.released(step.index);
      if (step.what == TraceStep::What::allocated) segments_.allocated(trace.blocks()[step.index]);
    }
    main_ = find_main();
  }

  PageRun fill(std::span<const AllocationTrace::Mark> steps) {
    run_.events = static_cast<PageEvent>(trace_.position());
    if (recording_ != nullptr) fill_times(*recording_);
    fill_blocks();
    fill_segments();
    if (main_.valid() && !run_.segments.empty())
      run_.askers.push_back({.stream = stream_of(main_),
                             .shares = segments_.are_shared(),
                             .fixed = segments_.are_shared()});
    mark_peak();
    mark_steps(steps);
    if (recording_ != nullptr) fill_operations(*recording_);
    return std::move(run_);
  }

 private:
  std::uint32_t stream_named(const std::string& name) {
    const auto [known, is_new] =
        by_name_.try_emplace(name, static_cast<std::uint32_t>(run_.streams.size()));
    if (is_new) run_.streams.push_back({0, name});
    return known->second;
  }

  std::uint32_t stream_of(StreamId id) {
    if (!id.valid()) return kUnknown;
    const auto known = names_.find(id);
    return stream_named(known != names_.end()
                            ? known->second
                            : fmt::format("stream {}.{}", id.slot, id.generation));
  }

  std::uint32_t tag_of(std::uint32_t tag) {
    const std::string& name = trace_.tag_name(tag);
    if (name.empty()) return kUnknown;
    const auto [known, is_new] =
        tags_.try_emplace(tag, static_cast<std::uint32_t>(run_.tags.size()));
    if (is_new) run_.tags.push_back(name);
    return known->second;
  }

  PageEvent within(TracePosition position) const {
    return position == kNever ? run_.events : event_of(position);
  }

  /// The stream that owns the memory of a block until it can be reused.
  StreamId keeper_of(const TracedBlock& block) const {
    return segments_.are_shared() ? block.user : block.owner;
  }

  /// The stream named "main". Without one, the stream whose blocks hold most memory at one time.
  StreamId find_main() const {
    for (const auto& [id, name] : names_) {
      if (name == "main") return id;
    }
    std::map<StreamId, std::pair<std::uint64_t, std::uint64_t>> live;  // now, and maximum
    StreamId main;
    std::uint64_t most = 0;
    for (const TraceStep& step : steps_) {
      const bool begins = step.what == TraceStep::What::allocated;
      if (!begins && step.what != TraceStep::What::freed) continue;
      const TracedBlock& block = trace_.blocks()[step.index];
      auto& [now, peak] = live[keeper_of(block)];
      now = begins ? now + block.bytes : now - block.bytes;
      peak = std::max(peak, now);
      if (peak <= most) continue;
      most = peak;
      main = keeper_of(block);
    }
    return main;
  }

  /// The event at which the block's own stream may reuse it. Work on that stream itself does not
  /// delay the reuse.
  PageEvent ready_of(const TracedBlock& block) const {
    TracePosition from = block.freed;
    for (const Point point : block.free_points) {
      if (point.stream == keeper_of(block)) continue;
      from = std::max(from, trace_.ordering().completed_from(point));
    }
    return within(from);
  }

  /// The event from which the main stream may use the memory without waiting.
  PageEvent usable_by_main(const TracedBlock& block) const {
    TracePosition from = block.freed;
    for (const Point point : block.free_points) {
      if (point.stream == main_) continue;
      from = std::max(from, std::min(trace_.ordering().completed_from(point),
                                     trace_.ordering().ordered_from(point, main_)));
    }
    return within(from);
  }

  /// Blocks freed before the same mark share one arrow.
  std::uint32_t arrow_of(const ReuseEdge& edge) {
    const std::tuple key{edge.after.stream, edge.stream, edge.waited};
    const auto [known, is_new] =
        edges_.try_emplace(key, static_cast<std::uint32_t>(run_.arrows.size()));
    // A wait during an allocation has the position of the allocation, and may precede the free.
    const double from = clock_at(edge.freed), to = clock_at(std::max(edge.waited, edge.freed));
    if (is_new) {
      run_.arrows.push_back({.from_stream = stream_of(edge.after.stream),
                             .to_stream = stream_of(edge.stream),
                             .from = from,
                             .to = to,
                             .for_reuse = recording_ != nullptr});
    } else if (run_.arrows[known->second].from < from) {
      run_.arrows[known->second].from = from;
    }
    return known->second;
  }

  PageBlock block_of(const TracedBlock& traced) {
    PageBlock block;
    block.address = traced.address;
    block.bytes = traced.bytes;
    block.requested = traced.requested;
    block.placed = !trace_.segments().empty();
    block.stream = stream_of(keeper_of(traced));
    block.allocated = event_of(traced.allocated);
    block.tag = tag_of(traced.tag);
    if (traced.freed == kNever) return block;
    block.freed = event_of(traced.freed);
    block.ready = ready_of(traced);
    return block;
  }

  void fill_times(const experiment::RunRecording& recording) {
    for (const Nanoseconds time : recording.times()) run_.times_us.push_back(microseconds(time));
  }

  void fill_blocks() {
    const std::span<const TracedBlock> traced = trace_.blocks();
    const bool shares = segments_.are_shared();
    FreeMemory memory{run_.blocks, 0,
                      [&](std::uint32_t block) { return usable_by_main(traced[block]); }};
    std::map<TracePosition, const TracedMove*> moves;  // by position of the release
    for (const TracedMove& move : trace_.moves()) moves[move.position - 1] = &move;
    for (const TraceStep& step : steps_) {
      if (step.what == TraceStep::What::allocated) add_block(memory, traced[step.index]);
      if (step.what != TraceStep::What::acquired && step.what != TraceStep::What::released)
        continue;
      const TracedSegment& segment = trace_.segments()[step.index];
      const PageEvent now = event_of(step.position);
      if (moves.contains(step.position)) {
        const TracedMove& move = *moves.at(step.position);
        memory.moved(move.from, move.to, move.bytes, now);
      } else if (step.what == TraceStep::What::released) {
        memory.released(segment.base, segment.base + segment.bytes, now);
      } else if (!moves.contains(step.position - 1)) {
        memory.acquired(segment.base, segment.base + segment.bytes, kUnknown, now);
      }
    }
    if (shares && !trace_.segments().empty() && main_.valid())
      run_.free = memory.finish(run_.events);
  }

  void add_block(FreeMemory& memory, const TracedBlock& traced) {
    const auto index = static_cast<std::uint32_t>(run_.blocks.size());
    run_.blocks.push_back(block_of(traced));
    const PageEvent now = run_.blocks.back().allocated;
    std::uint32_t previous = kUnknown;
    for (const FreeMemory::Taken& part : memory.taken(index, now)) {
      PageBlock& before = run_.blocks[part.block];
      if (previous == kUnknown || previous < part.block) previous = part.block;
      before.ready = std::min(before.ready, now);
    }
    PageBlock& block = run_.blocks.back();
    block.previous = previous;
    if (previous == kUnknown) {
      block.reuse = PageReuse::fresh;
      return;
    }
    const TracedBlock& before = trace_.blocks()[previous];
    block.reuse = reuse_of(trace_.ordering(), traced, before);
    if (block.reuse != PageReuse::ordered) return;
    if (const auto edge = edge_of(trace_.ordering(), traced, before)) {
      const std::uint32_t wait = arrow_of(*edge);  // may add a stream, but no block
      run_.blocks.back().wait = wait;
    }
  }

  void fill_segments() {
    for (std::size_t i = 0; i < trace_.segments().size(); ++i) {
      const TracedSegment& traced = trace_.segments()[i];
      PageSegment& segment = run_.segments.emplace_back();
      segment.address = traced.base;
      segment.bytes = traced.bytes;
      if (!segments_.are_shared()) segment.stream = stream_of(segments_.stream(i));
      segment.mapped = event_of(traced.acquired);
      if (traced.released != kNever) segment.unmapped = event_of(traced.released);
    }
  }

  /// Marks the peak after the request that caused it, as `explain` does.
  void mark_peak() {
    std::uint64_t reserved = 0, most = 0;
    bool has_grown = false;
    std::optional<PageEvent> peak;
    for (const TraceStep& step : steps_) {
      if (step.what == TraceStep::What::allocated && has_grown) {
        peak = event_of(step.position);
        has_grown = false;
      }
      const bool got = step.what == TraceStep::What::acquired;
      if (!got && step.what != TraceStep::What::released) continue;
      const std::uint64_t bytes = trace_.segments()[step.index].bytes;
      reserved = got ? reserved + bytes : reserved - bytes;
      if (reserved <= most) continue;
      most = reserved;
      has_grown = true;
    }
    if (!peak) return;
    const double at = run_.times_us.empty() ? static_cast<double>(*peak) : run_.times_us[*peak];
    run_.marks.push_back(
        {.kind = PageMark::Kind::peak, .text = "peak", .begin = at, .end = at, .event = *peak});
  }

  /// Work after the last step gets no mark.
  void mark_steps(std::span<const AllocationTrace::Mark> steps) {
    for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
      run_.marks.push_back({.kind = PageMark::Kind::step,
                            .text = steps[i].name,
                            .begin = clock_at(steps[i].position),
                            .end = clock_at(steps[i + 1].position)});
    }
  }

  /// The time of an event on the page's clock.
  [[nodiscard]] double clock_at(TracePosition position) const {
    const PageEvent event = event_of(position);
    return event < run_.times_us.size() ? run_.times_us[event] : static_cast<double>(event);
  }

  static PageOperationKind kind_of(Engine engine) {
    switch (engine) {
      case Engine::compute:
        return PageOperationKind::kernel;
      case Engine::host_to_device:
      case Engine::device_to_host:
      case Engine::link:
        return PageOperationKind::copy;
      case Engine::host:
        return PageOperationKind::callback;
      default:
        return PageOperationKind::wait;
    }
  }

  void fill_operations(const experiment::RunRecording& recording) {
    run_.names = recording.names;
    std::vector<std::uint32_t> streams(recording.streams.size(), kUnknown);
    const auto stream = [&](std::uint32_t index) {  // a stream without work gets no lane
      std::uint32_t& known = streams[index];
      if (known == kUnknown) known = stream_named(recording.streams[index]);
      return known;
    };
    for (const experiment::RecordedOperation& recorded : recording.operations) {
      const bool is_before =
          !run_.times_us.empty() && microseconds(recorded.end) <= run_.times_us[0];
      if (is_before) continue;  // ends before the axis begins
      const bool wait = recorded.engine == Engine::stream;
      run_.operations.push_back({stream(recorded.stream), kind_of(recorded.engine), recorded.name,
                                 microseconds(wait ? recorded.stands_since : recorded.begin),
                                 microseconds(recorded.end)});
    }
    for (const experiment::RecordedOrder& order : recording.orders) {
      if (!run_.times_us.empty() && microseconds(order.to) <= run_.times_us[0]) continue;
      run_.arrows.push_back({stream(order.from_stream), stream(order.to_stream),
                             microseconds(order.from), microseconds(order.to)});
    }
  }

  const AllocationTrace& trace_;
  const experiment::RunRecording* const recording_;
  const std::map<StreamId, std::string>& names_;
  const std::vector<TraceStep> steps_;
  SegmentStreams segments_;
  StreamId main_;
  PageRun run_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::unordered_map<std::uint32_t, std::uint32_t> tags_;
  /// Arrows by both streams and the position of the wait.
  std::map<std::tuple<StreamId, StreamId, TracePosition>, std::uint32_t> edges_;
};

}  // namespace

PageRun page_run(const AllocationTrace& trace, const experiment::RunRecording* recording,
                 const std::map<StreamId, std::string>& streams,
                 std::span<const AllocationTrace::Mark> steps) {
  return Filler{trace, recording, streams}.fill(steps);
}

}  // namespace millrace::cli
