#include "page/from_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <unordered_map>

namespace millrace::cli {
namespace {

double microseconds(Nanoseconds time) {
  return std::chrono::duration<double, std::micro>{time}.count();
}

/// Positions of a trace count from 1, events of a page from 0.
PageEvent event_of(TracePosition position) { return static_cast<PageEvent>(position - 1); }

/// The block that has, or last had, each address.
class Owners {
 public:
  /// A part of an earlier block's memory, which a new block takes.
  struct Taken {
    std::uint32_t owner;
    std::uint64_t bytes;
  };

  /** @brief The block `owner` takes [begin, end). */
  std::vector<Taken> take(std::uint64_t begin, std::uint64_t end, std::uint32_t owner) {
    std::vector<Taken> taken;
    auto part = parts_.lower_bound(begin);
    if (part != parts_.begin() && std::prev(part)->second.end > begin) --part;
    while (part != parts_.end() && part->first < end) {
      const auto [from, had] = std::pair{part->first, part->second};
      taken.push_back({had.owner, std::min(end, had.end) - std::max(begin, from)});
      part = parts_.erase(part);
      if (from < begin) parts_.emplace(from, Part{begin, had.owner});
      if (had.end > end) part = parts_.emplace(end, Part{had.end, had.owner}).first;
    }
    parts_.emplace(begin, Part{end, owner});
    return taken;
  }

 private:
  struct Part {
    std::uint64_t end;
    std::uint32_t owner;
  };
  std::map<std::uint64_t, Part> parts_;  // by first address
};

/// Bytes that are free, but that one stream could not use without waiting, from event to event.
class Stranded {
 public:
  void add(std::uint64_t bytes, PageEvent from, PageEvent to) {
    if (from >= to) return;
    changes_[from] += static_cast<std::int64_t>(bytes);
    changes_[to] -= static_cast<std::int64_t>(bytes);
  }

  [[nodiscard]] PageCounter counter(const PageRun& run, std::uint32_t stream) const {
    PageCounter counter;
    counter.kind = PageCounter::Kind::stranded;
    counter.name = "stranded";
    counter.stream = stream;
    const auto clock = [&](PageEvent event) {
      return run.times_us.empty() ? static_cast<double>(event) : run.times_us[event];
    };
    if (run.events > 0) counter.points.emplace_back(clock(0), 0);
    std::int64_t bytes = 0;
    for (const auto& [event, change] : changes_) {
      bytes += change;
      if (event < run.events) {
        counter.points.emplace_back(clock(event), static_cast<std::uint64_t>(bytes));
      }
    }
    return counter;
  }

 private:
  std::map<PageEvent, std::int64_t> changes_;
};

class Filler {
 public:
  Filler(const AllocationTrace& trace, const experiment::RunRecording* recording,
         const std::map<StreamId, std::string>& names)
      : trace_(trace), recording_(recording), names_(names) {
    for (const auto& [id, name] : names) {
      if (name == "main") main_ = id;
    }
  }

  PageRun fill() {
    run_.events = static_cast<PageEvent>(trace_.position());
    if (recording_ != nullptr) fill_times(*recording_);
    fill_blocks();
    fill_segments();
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

  PageEvent ready_of(const TracedBlock& block) const {
    TracePosition from = block.freed;
    for (const Point point : block.free_points) {
      from = std::max(from, trace_.ordering().completed_from(point));
    }
    return within(from);
  }

  /// From when on the main stream may use the memory without waiting.
  PageEvent usable_by_main(const TracedBlock& block) const {
    TracePosition from = block.freed;
    for (const Point point : block.free_points) {
      if (point.stream == main_) continue;
      from = std::max(from, std::min(trace_.ordering().completed_from(point),
                                     trace_.ordering().ordered_from(point, main_)));
    }
    return within(from);
  }

  PageReuse reuse_of(const TracedBlock& block, const TracedBlock& before) const {
    const OrderingHistory& ordering = trace_.ordering();
    bool complete = true, same_stream = true, ordered = true;
    for (const Point point : before.free_points) {
      const bool own = point.stream == block.user;
      complete = complete && ordering.completed_from(point) <= block.allocated;
      same_stream = same_stream && own;
      ordered = ordered && (own || ordering.ordered_from(point, block.user) <= block.allocated ||
                            ordering.completed_from(point) <= block.allocated);
    }
    if (same_stream && before.user == block.user) return PageReuse::same_stream;
    if (complete) return PageReuse::completed;
    return ordered ? PageReuse::ordered : PageReuse::unknown;
  }

  PageBlock block_of(const TracedBlock& traced) {
    PageBlock block;
    block.address = traced.address;
    block.bytes = traced.bytes;
    block.requested = traced.requested;
    block.stream = stream_of(traced.user);
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
    Owners owners;
    Stranded stranded;
    const std::span<const TracedBlock> blocks = trace_.blocks();
    std::vector<std::uint64_t> untaken;  // of each block, bytes that no other block has taken
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      const TracedBlock& traced = blocks[i];
      PageBlock block = block_of(traced);
      for (const Owners::Taken& part :
           owners.take(traced.address, traced.address + traced.bytes, i)) {
        PageBlock& before = run_.blocks[part.owner];
        if (block.previous == kUnknown || block.previous < part.owner) block.previous = part.owner;
        before.ready = std::min(before.ready, block.allocated);
        untaken[part.owner] -= part.bytes;
        stranded.add(part.bytes, before.freed,
                     std::min(usable_by_main(blocks[part.owner]), block.allocated));
      }
      block.reuse =
          block.previous == kUnknown ? PageReuse::fresh : reuse_of(traced, blocks[block.previous]);
      run_.blocks.push_back(block);
      untaken.push_back(traced.bytes);
    }
    for (std::uint32_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].freed == kNever || untaken[i] == 0) continue;
      stranded.add(untaken[i], run_.blocks[i].freed, usable_by_main(blocks[i]));
    }
    if (main_.valid()) run_.counters.push_back(stranded.counter(run_, stream_of(main_)));
  }

  void fill_segments() {
    for (const TracedSegment& traced : trace_.segments()) {
      PageSegment& segment = run_.segments.emplace_back();
      segment.address = traced.base;
      segment.bytes = traced.bytes;
      segment.mapped = event_of(traced.acquired);
      if (traced.released != kNever) segment.unmapped = event_of(traced.released);
    }
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
    const auto stream = [&](std::uint32_t index) {  // one that did nothing gets no lane
      std::uint32_t& known = streams[index];
      if (known == kUnknown) known = stream_named(recording.streams[index]);
      return known;
    };
    for (const experiment::RecordedOperation& recorded : recording.operations) {
      const bool wait = recorded.engine == Engine::stream;
      run_.operations.push_back({stream(recorded.stream), kind_of(recorded.engine), recorded.name,
                                 microseconds(wait ? recorded.stands_since : recorded.begin),
                                 microseconds(recorded.end)});
    }
    for (const experiment::RecordedOrder& order : recording.orders) {
      run_.arrows.push_back({stream(order.from_stream), stream(order.to_stream),
                             microseconds(order.from), microseconds(order.to), false});
    }
  }

  const AllocationTrace& trace_;
  const experiment::RunRecording* const recording_;
  const std::map<StreamId, std::string>& names_;
  StreamId main_;
  PageRun run_;
  std::unordered_map<std::string, std::uint32_t> by_name_;
  std::unordered_map<std::uint32_t, std::uint32_t> tags_;
};

}  // namespace

PageRun page_run(const AllocationTrace& trace, const experiment::RunRecording* recording,
                 const std::map<StreamId, std::string>& streams) {
  return Filler{trace, recording, streams}.fill();
}

}  // namespace millrace::cli
