#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "observe/trace/formats.hpp"
#include "observe/trace/log_builder.hpp"
#include "observe/trace/torch/rebase.hpp"

namespace millrace::trace {

namespace {

/** Stretches of memory that the recorded allocator holds; neighbors may be kept as one. */
class Mapped {
 public:
  struct Stretch {
    std::uint64_t end = 0;
    TorchPool pool;
    bool expandable = false;
  };

  void add(std::uint64_t from, const Stretch& stretch) {
    remove(from, stretch.end);
    stretches_[from] = stretch;
  }

  void remove(std::uint64_t from, std::uint64_t to) {
    split(from);
    split(to);
    stretches_.erase(stretches_.lower_bound(from), stretches_.lower_bound(to));
  }

  /** nullptr: nothing is there */
  [[nodiscard]] const Stretch* find(std::uint64_t address) const {
    const auto after = stretches_.upper_bound(address);
    if (after == stretches_.begin()) return nullptr;
    const Stretch& stretch = std::prev(after)->second;
    return address < stretch.end ? &stretch : nullptr;
  }

 private:
  void split(std::uint64_t at) {
    const auto after = stretches_.lower_bound(at);
    if (after == stretches_.begin()) return;
    Stretch& stretch = std::prev(after)->second;
    if (stretch.end <= at) return;
    stretches_[at] = stretch;
    stretch.end = at;
  }

  std::map<std::uint64_t, Stretch> stretches_;
};

/** The pool of each segment that a trace allocates, by position, as far as it can be known: newer
 * versions tell it; else it is that of the snapshot's segment, if that was not another one since.
 */
std::map<std::size_t, TorchPool> pools_of_new_segments(const TorchSnapshot& snapshot,
                                                       std::uint32_t device) {
  std::map<std::uint64_t, TorchPool> later;
  for (const TorchSegment& segment : snapshot.segments) {
    if (segment.device == device) later[segment.address] = segment.pool;
  }
  std::map<std::size_t, TorchPool> pools;
  if (device >= snapshot.traces.size()) return pools;
  const std::vector<TorchEvent>& events = snapshot.traces[device];
  for (std::size_t position = events.size(); position-- > 0;) {
    const TorchEvent& event = events[position];
    if (event.action == TorchAction::segment_alloc) {
      const auto known = later.extract(event.address);
      pools[position] = event.pool.value_or(known ? known.mapped() : TorchPool{});
    } else if (event.action == TorchAction::segment_free) {
      later.erase(event.address);
    }
  }
  return pools;
}

/** The events of one device in order, with a block for each lifetime. */
class DeviceReplay {
 public:
  DeviceReplay(std::uint32_t device, LogBuilder& builder, AllocationLog& log, Warnings& warnings)
      : device_{device},
        builder_{builder},
        log_{log},
        warnings_{warnings},
        new_pools_{pools_of_new_segments(*log.snapshot, device)} {
    const TorchLayout& initial = log.initial.at(device);
    for (const TorchSegment& segment : initial.segments) {
      mapped_.add(segment.address,
                  {segment.address + segment.bytes, segment.pool, segment.expandable});
      for (const TorchBlock& block : segment.blocks) {
        if (block.state != BlockState::inactive) add_initial(block, segment.stream);
      }
    }
    for (const TorchBlock& block : initial.unplaced) add_initial(block, 0);
  }

  void apply(const TorchEvent& event, std::size_t position) {
    position_ = position;
    switch (event.action) {
      case TorchAction::alloc:
        return allocate(event);
      case TorchAction::free_requested:
        return request_free(event);
      case TorchAction::free_completed:
        return complete_free(event);
      case TorchAction::segment_alloc:
        return map(event, EventKind::segment_alloc);
      case TorchAction::segment_map:
        return map(event, EventKind::segment_map);
      case TorchAction::segment_free:
        return unmap(event, EventKind::segment_free);
      case TorchAction::segment_unmap:
        return unmap(event, EventKind::segment_unmap);
      case TorchAction::out_of_memory:
        return builder_.add(converted(event, EventKind::out_of_memory));
      case TorchAction::annotate:
        return annotate(event);
      case TorchAction::snapshot:
      case TorchAction::other:
        return;
    }
  }

 private:
  enum class Progress : std::uint8_t { in_use, requested };

  [[nodiscard]] std::uint32_t stream(std::int64_t handle) {
    return builder_.stream({device_, static_cast<std::uint64_t>(handle), 0});
  }

  LogEvent converted(const TorchEvent& event, EventKind kind) {
    LogEvent result{.kind = kind, .device = device_, .stream = stream(event.stream)};
    result.address = kind == EventKind::out_of_memory ? 0 : event.address;
    result.bytes = event.bytes;
    result.time_us = event.time_us;
    result.position = position_;
    result.stack = event.stack;
    return result;
  }

  void note(std::string_view finding, std::uint64_t address) {
    warnings_.add(finding,
                  fmt::format("device_traces[{}][{}], address {:#x}", device_, position_, address));
  }

  LoggedBlock at(std::uint64_t address) const {
    LoggedBlock block;
    block.address = address;
    block.device = device_;
    const Mapped::Stretch* const stretch = mapped_.find(address);
    block.placed = stretch != nullptr;
    if (stretch == nullptr) return block;
    block.pool = stretch->pool;
    block.expandable = stretch->expandable;
    return block;
  }

  void add_initial(const TorchBlock& block, std::int64_t handle) {
    LoggedBlock logged = at(block.address);
    logged.bytes = block.requested;
    logged.held = block.bytes;
    logged.stream = stream(handle);
    logged.stack = block.stack;
    logged.label = block.label;
    logged.live_at_start = true;
    logged.freed_before_start = block.state == BlockState::pending_free;
    const std::uint32_t index = builder_.allocate(logged, {});
    progress_[index] =
        block.state == BlockState::pending_free ? Progress::requested : Progress::in_use;
  }

  void allocate(const TorchEvent& event) {
    while (const auto other = builder_.find_overlap(device_, event.address,
                                                    std::max<std::uint64_t>(event.bytes, 1))) {
      note("a block is allocated over one in use, which is taken as freed", event.address);
      end(*other, event);
    }
    const LogEvent converted_event = converted(event, EventKind::allocate);
    LoggedBlock logged = at(event.address);
    logged.bytes = event.bytes;
    logged.stream = converted_event.stream;
    logged.stack = event.stack;
    logged.label = event.label;
    if (event.pool) logged.pool = *event.pool;
    const std::uint32_t index = builder_.allocate(logged, converted_event);
    progress_[index] = Progress::in_use;
  }

  void annotate(const TorchEvent& event) {
    const auto block = builder_.find(device_, event.address);
    if (block && event.label != LabelTable::kNone) log_.blocks[*block].label = event.label;
  }

  // Ends the life of a block of which the trace does not say how it ended.
  void end(std::uint32_t block, const TorchEvent& because) {
    TorchEvent event = because;
    event.address = log_.blocks[block].address;
    event.bytes = log_.blocks[block].bytes;
    if (progress_[block] == Progress::in_use) {
      builder_.free(block, converted(event, EventKind::free_requested));
    }
    complete(block, event);
  }

  void request_free(const TorchEvent& event) {
    const auto block = builder_.find(device_, event.address);
    if (!block) return note("a free of a block that is not in use is left out", event.address);
    if (progress_[*block] == Progress::requested) {
      return note("a block is freed twice; the second is left out", event.address);
    }
    builder_.free(*block, converted(event, EventKind::free_requested));
    progress_[*block] = Progress::requested;
  }

  void complete_free(const TorchEvent& event) {
    const auto block = builder_.find(device_, event.address);
    if (!block) return note("a free of a block that is not in use is left out", event.address);
    // Recording can leave the requests out.
    if (progress_[*block] == Progress::in_use) {
      builder_.free(*block, converted(event, EventKind::free_requested));
    }
    complete(*block, event);
  }

  void complete(std::uint32_t block, const TorchEvent& event) {
    builder_.free(block, converted(event, EventKind::free_completed));
    builder_.forget(block);
    progress_.erase(block);
  }

  void map(const TorchEvent& event, EventKind kind) {
    const auto pool = new_pools_.find(position_);
    mapped_.add(event.address,
                {event.address + event.bytes, pool == new_pools_.end() ? TorchPool{} : pool->second,
                 kind == EventKind::segment_map});
    builder_.add(converted(event, kind));
  }

  void unmap(const TorchEvent& event, EventKind kind) {
    mapped_.remove(event.address, event.address + event.bytes);
    builder_.add(converted(event, kind));
  }

  std::uint32_t device_;
  LogBuilder& builder_;
  AllocationLog& log_;
  Warnings& warnings_;
  std::size_t position_ = 0;
  const std::map<std::size_t, TorchPool> new_pools_;
  Mapped mapped_;
  std::map<std::uint32_t, Progress> progress_;  // of live blocks
};

std::uint32_t device_count(const TorchSnapshot& snapshot) {
  auto count = static_cast<std::uint32_t>(snapshot.traces.size());
  for (const TorchSegment& segment : snapshot.segments) count = std::max(count, segment.device + 1);
  return count;
}

// Each device's events in their order, the devices interleaved by time.
void replay(const TorchSnapshot& snapshot, std::vector<DeviceReplay>& devices) {
  std::vector<std::size_t> next(snapshot.traces.size(), 0);
  while (true) {
    std::size_t earliest = next.size();
    for (std::size_t device = 0; device < next.size(); ++device) {
      const auto& trace = snapshot.traces[device];
      if (next[device] == trace.size()) continue;
      if (earliest == next.size() ||
          trace[next[device]].time_us < snapshot.traces[earliest][next[earliest]].time_us) {
        earliest = device;
      }
    }
    if (earliest == next.size()) return;
    devices[earliest].apply(snapshot.traces[earliest][next[earliest]], next[earliest]);
    ++next[earliest];
  }
}

/** Stacks and labels that only the snapshot's own blocks have: recording can leave them out of the
 * trace. */
void complete_stacks(const TorchSnapshot& snapshot, const LogBuilder& builder, AllocationLog& log) {
  for (const TorchSegment& segment : snapshot.segments) {
    for (const TorchBlock& block : segment.blocks) {
      const auto known = builder.find(segment.device, block.address);
      if (block.state == BlockState::inactive || !known) continue;
      LoggedBlock& logged = log.blocks[*known];
      if (logged.bytes != block.requested) continue;
      if (logged.stack == StackTable::kNone) logged.stack = block.stack;
      if (logged.label == LabelTable::kNone) logged.label = block.label;
    }
  }
}

/** Fills a log whose snapshot is there. */
void fill(AllocationLog& log, Warnings& warnings) {
  LogBuilder builder{log};
  std::vector<DeviceReplay> devices;
  for (std::uint32_t device = 0; device < device_count(*log.snapshot); ++device) {
    log.initial.push_back(initial_layout(*log.snapshot, device, warnings));
    devices.emplace_back(device, builder, log, warnings);
  }
  replay(*log.snapshot, devices);
  complete_stacks(*log.snapshot, builder, log);
}

/** The log of pinned memory; its blocks are not rounded up again. */
AllocationLog host_log(const AllocationLog& log, Warnings& warnings) {
  AllocationLog host;
  host.source = log.source;
  host.format = log.format;
  host.stacks = log.stacks;
  host.labels = log.labels;
  host.snapshot.emplace();
  host.snapshot->segments = log.snapshot->host_segments;
  host.snapshot->traces.push_back(log.snapshot->host_trace);
  rebase(*host.snapshot, log.source, warnings);
  fill(host, warnings);
  for (LoggedBlock& block : host.blocks) block.held = block.bytes;
  return host;
}

}  // namespace

AllocationLog read_torch_log(ValueTree tree, const std::string& source) {
  AllocationLog log;
  log.source = source;
  log.format = TraceFormat::torch_snapshot;
  Warnings warnings;
  {
    const ValueTree whole = std::move(tree);  // which is not needed beyond the snapshot
    log.snapshot = read_torch_snapshot(whole, source, warnings);
  }
  log.stacks = std::move(log.snapshot->stacks);
  log.labels = std::move(log.snapshot->labels);
  fill(log, warnings);
  if (log.events.empty()) {
    warnings.add("the snapshot has no events to replay",
                 "torch.cuda.memory._record_memory_history() records them");
  }
  if (!log.snapshot->host_segments.empty() || !log.snapshot->host_trace.empty()) {
    log.host.push_back(host_log(log, warnings));
  }
  log.warnings = warnings.lines();
  return log;
}

}  // namespace millrace::trace
