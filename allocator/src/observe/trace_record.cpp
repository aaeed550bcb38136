#include "millrace/observe/trace_record.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/trace_steps.hpp"

namespace millrace {
namespace {

/** Goes through a trace in order and writes each step. */
class TraceRecorder {
 public:
  TraceRecorder(const AllocationTrace& trace, const RecordedMemory& memory, trace::TraceSink& sink)
      : trace_(trace), memory_(memory), writer_(sink, [this] { return now_; }) {
    writer_.device(memory.device, memory.bytes, memory.name, {.times_are_positions = true});
  }

  void run() {
    // Blocks come before segments, because the stream of a segment follows from its blocks.
    for (const TracedBlock& block : trace_.blocks()) static_cast<void>(number(block.owner));
    for (const Step& step : steps()) {
      now_ = static_cast<std::int64_t>(step.position);
      apply(step);
    }
  }

 private:
  // At one position, facts that were known before the allocator acted come first.
  enum class Kind : std::uint8_t { completed, waited, released, reserved, used, freed, allocated };
  struct Step {
    TracePosition position = 0;
    Kind what = Kind::allocated;
    std::size_t index = 0;  // the block, the segment or the use
    StreamId stream;        // the waiting stream
    Point point;
  };

  [[nodiscard]] std::vector<Step> steps() const {
    std::vector<Step> steps;
    trace_steps::add_segments(steps, trace_, Kind::reserved, Kind::released);
    for (std::size_t i = 0; i < trace_.uses().size(); ++i)
      trace_steps::add(steps, trace_.uses()[i].position, Kind::used, i);
    for (std::size_t i = 0; i < trace_.blocks().size(); ++i) {
      const TracedBlock& block = trace_.blocks()[i];
      trace_steps::add(steps, block.allocated, Kind::allocated, i);
      trace_steps::add(steps, block.freed, Kind::freed, i);
      if (block.freed == kNever) continue;
      const auto counts = [](Point) { return true; };
      const TracePosition completed = trace_steps::completed_from(trace_, block, counts);
      trace_steps::add(steps, completed, Kind::completed, i);
      for (const Point point : block.free_points) add_waits(steps, block, point);
    }
    trace_steps::sort(steps);
    return steps;
  }

  void add_waits(std::vector<Step>& steps, const TracedBlock& block, Point point) const {
    for (const StreamId stream : trace_.ordering().observers_of(point.stream.slot)) {
      const TracePosition from = trace_.ordering().ordered_from(point, stream);
      if (from == kNever || stream == point.stream) continue;
      steps.push_back({.position = std::max(from, block.freed + 1),
                       .what = Kind::waited,
                       .stream = stream,
                       .point = point});
    }
  }

  void apply(const Step& step) {
    switch (step.what) {
      case Kind::reserved: {
        const TracedSegment& segment = trace_.segments()[step.index];
        return writer_.reserved(memory_.device, segment.base, segment.bytes);
      }
      case Kind::released: {
        const TracedSegment& segment = trace_.segments()[step.index];
        return writer_.released(memory_.device, segment.base, segment.bytes);
      }
      case Kind::allocated: {
        const TracedBlock& block = trace_.blocks()[step.index];
        numbers_[block.id] =
            writer_.allocated({.stream = number(block.owner),
                               .address = block.address,
                               .bytes = block.requested,
                               .label = writer_.label(trace_.tag_name(block.tag))});
        return;
      }
      case Kind::freed: {
        const TracedBlock& block = trace_.blocks()[step.index];
        return writer_.freed(numbers_.at(block.id), number(freed_on(block)));
      }
      case Kind::completed:
        return writer_.completed(numbers_.at(trace_.blocks()[step.index].id));
      case Kind::used: {
        const TracedUse& use = trace_.uses()[step.index];
        const auto block = numbers_.find(use.id);
        if (block != numbers_.end()) writer_.used(block->second, number(use.stream));
        return;
      }
      case Kind::waited:
        return wait(step);
    }
  }

  /** The stream in whose order the block was freed: the owner, unless only another stream used it.
   */
  static StreamId freed_on(const TracedBlock& block) {
    const auto of_owner = std::ranges::find(block.free_points, block.owner, &Point::stream);
    const bool elsewhere = of_owner == block.free_points.end() && !block.free_points.empty();
    return elsewhere ? block.free_points.front().stream : block.owner;
  }

  void wait(const Step& step) {
    if (!waited_.emplace(step.stream, step.point).second) return;
    const std::uint32_t of = number(step.point.stream);
    writer_.marked(of, step.point.marker);
    writer_.waited(number(step.stream), of, step.point.marker);
  }

  std::uint32_t number(StreamId stream) {
    const auto [known, fresh] = streams_.try_emplace(stream, 0U);
    if (fresh) {
      known->second = writer_.stream(
          {.device = memory_.device,
           .handle = std::uint64_t{stream.generation} << 32 | stream.slot,
           .name = memory_.stream_name ? memory_.stream_name(stream) : std::string{}});
    }
    return known->second;
  }

  const AllocationTrace& trace_;
  const RecordedMemory& memory_;
  std::int64_t now_ = 0;
  trace::TraceWriter writer_;
  std::unordered_map<StreamId, std::uint32_t> streams_;
  std::unordered_map<std::uint64_t, std::uint64_t> numbers_;  // by id
  std::set<std::pair<StreamId, Point>> waited_;
};

}  // namespace

void write_trace(const AllocationTrace& trace, const RecordedMemory& memory,
                 trace::TraceSink& sink) {
  TraceRecorder{trace, memory, sink}.run();
}

}  // namespace millrace
