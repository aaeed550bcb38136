#include "millrace/observe/replay.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/packing.hpp"
#include "observe/replay/recorded_releases.hpp"
#include "observe/replay/recorded_retry.hpp"
#include "observe/replay/trace_device.hpp"

namespace millrace {
namespace {

using trace::EventKind;
using trace::LogEvent;

Policy with_settings(Policy policy, const trace::TorchSettings& settings) {
  if (settings.max_split_size != trace::TorchSettings::kUnlimited) {
    policy.max_split = settings.max_split_size;
  }
  std::ranges::copy(settings.roundup_power2_divisions, policy.power2_divisions.begin());
  policy.medium_segment = settings.large_segment_size;
  return policy;
}

std::string hex(std::uint64_t value) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

/** Notes which segments one request took, and how much is held. */
class TakenSegments final : public AllocationObserver {
 public:
  explicit TakenSegments(AllocationTrace& trace) : trace_(trace) {}
  void allocated(const AllocationEvent& event) override { trace_.allocated(event); }
  void use_recorded(std::uint64_t id, StreamId stream) override { trace_.use_recorded(id, stream); }
  void freed(const FreeEvent& event) override { trace_.freed(event); }
  void segment_acquired(void* base, std::size_t bytes) override {
    trace_.segment_acquired(base, bytes);
    taken.push_back(bytes);
    reserved += bytes;
  }
  void segment_released(void* base, std::size_t bytes) override {
    trace_.segment_released(base, bytes);
    reserved -= bytes;
  }

  std::vector<std::size_t> taken;
  std::size_t reserved = 0;

 private:
  AllocationTrace& trace_;
};

class Replayer {
 public:
  Replayer(const trace::AllocationLog& log, std::uint32_t device, const ReplayOptions& options)
      : log_(log),
        number_(device),
        as_torch_(log.snapshot.has_value() && options.policy.sharing == Sharing::own_stream),
        compares_(as_torch_ && options.start == ReplayStart::recorded),
        bounds_(options.bounds ? *options.bounds : request_bounds(log, device)),
        retry_(log, device),
        device_(options.device_bytes),
        ordered_(device_),
        source_(device_),
        allocator_(
            ordered_, source_,
            as_torch_ ? with_settings(options.policy, log.snapshot->settings) : options.policy),
        observer_(trace_) {
    report_.allocator = options.policy.name;
    report_.device = device;
    report_.device_bytes = options.device_bytes;
    report_.start = compares_ ? ReplayStart::recorded : ReplayStart::live_blocks;
    if (compares_) report_.decisions.emplace();
    warn_of_what_is_not_modelled();
  }

  ReplayReport run() {
    start();
    for (const LogEvent& event : log_.events) {
      if (event.device == number_) apply(event);
    }
    finish();
    return std::move(report_);
  }

 private:
  // The layout before the first event: as it was, or by asking for what was live.
  void start() {
    if (number_ < log_.initial.size()) {
      for (const trace::TorchSegment& segment : log_.initial[number_].segments) {
        recorded_ += segment.bytes;
      }
      report_.recorded_peak = recorded_;
    }
    allocator_.observe(&observer_);
    if (compares_) restore(log_.initial[number_]);
    for (std::uint32_t i = 0; i < log_.blocks.size(); ++i) {
      const trace::LoggedBlock& block = log_.blocks[i];
      if (block.device != number_ || !block.live_at_start || live_.contains(i)) continue;
      live_[i] = allocator_.allocate(block.bytes, stream_of(block, block.stream));
    }
    for (std::uint32_t i = 0; i < log_.blocks.size(); ++i) {
      const auto it = log_.blocks[i].freed_before_start ? live_.find(i) : live_.end();
      if (it == live_.end()) continue;
      free_later(i, it->second);
      live_.erase(it);
    }
    first_position_ = trace_.position();
    report_.start_reserved = observer_.reserved;
    if (report_.recorded_peak) note_reserved(0, 0);
  }

  void warn_of_what_is_not_modelled() {
    std::size_t expandable = 0;
    std::size_t nowhere = 0;
    std::size_t in_pools = 0;
    for (const trace::LoggedBlock& block : log_.blocks) {
      if (block.device != number_) continue;
      if (block.expandable) ++expandable;
      if (!block.placed) ++nowhere;
      if (block.pool != trace::TorchPool{}) ++in_pools;
    }
    if (as_torch_ && expandable > 0) {
      report_.warnings.push_back(std::to_string(expandable) +
                                 " blocks of expandable segments are replayed in ordinary ones" +
                                 (compares_ ? ", and not compared" : ""));
    }
    if (compares_ && nowhere > 0) {
      report_.warnings.push_back(std::to_string(nowhere) +
                                 " blocks that are in no known segment are replayed apart, and not "
                                 "compared");
    }
    if (!as_torch_ && in_pools > 0) {
      report_.warnings.push_back(std::to_string(in_pools) +
                                 " blocks of private pools (CUDA graphs, MemPool) are replayed as "
                                 "if they were of the default one");
    }
  }

  void restore(const trace::TorchLayout& layout) {
    std::vector<CachingAllocator::SegmentLayout> segments;
    std::unordered_map<std::uint64_t, std::uint32_t> at_start;
    for (std::uint32_t i = 0; i < log_.blocks.size(); ++i) {
      const trace::LoggedBlock& block = log_.blocks[i];
      if (block.device == number_ && block.live_at_start) at_start[block.address] = i;
    }
    for (const trace::TorchSegment& segment : layout.segments) {
      if (segment.expandable) continue;
      auto& out = segments.emplace_back();
      out.base = reinterpret_cast<void*>(segment.address);
      out.bytes = segment.bytes;
      out.small = !segment.large;
      out.stream = lane({static_cast<std::uint64_t>(segment.stream), segment.pool, false});
      for (const trace::TorchBlock& block : segment.blocks) {
        const bool used = block.state != trace::BlockState::inactive;
        out.blocks.push_back({static_cast<std::size_t>(block.address - segment.address),
                              static_cast<std::size_t>(block.bytes),
                              static_cast<std::size_t>(block.requested), used});
        const auto it = at_start.find(block.address);
        if (used && it != at_start.end()) {
          live_[it->second] = reinterpret_cast<void*>(block.address);
        }
      }
      device_.adopt(segment.address, segment.bytes);
    }
    allocator_.restore(segments);
  }

  void apply(const LogEvent& event) {
    switch (event.kind) {
      case EventKind::allocate:
        allocate(event);
        break;
      case EventKind::free_requested:
        free(event);
        break;
      case EventKind::free_completed:
        complete(event);
        break;
      case EventKind::segment_alloc:
      case EventKind::segment_map:
        recorded_ += event.bytes;
        if (event.kind == EventKind::segment_map) break;
        if (compares_) device_.expect(event.address, event.bytes);
        expected_.push_back(event.bytes);
        break;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        recorded_ -= std::min<std::size_t>(recorded_, event.bytes);
        if (compares_) {
          allocator_.release_segment(reinterpret_cast<void*>(event.address));
        } else if (program_emptied_cache(log_, event)) {
          allocator_.trim();
        }
        break;
      case EventKind::out_of_memory:
        if (++refused_ == 1) {
          first_refused_ = (log_.snapshot ? "event " : "line ") + std::to_string(event.position) +
                           ", " + std::to_string(event.bytes) + " bytes";
        }
        break;
    }
    if (report_.recorded_peak) {
      report_.recorded_peak = std::max(*report_.recorded_peak, recorded_);
      note_reserved(event.position, event.time_us);
    }
  }

  void allocate(const LogEvent& event) {
    const trace::LoggedBlock& block = log_.blocks[event.block];
    observer_.taken.clear();
    void* address = allocator_.allocate(block.bytes, stream_of(block, event.stream));
    live_[event.block] = address;
    ++report_.allocations;
    for (const std::uint32_t index : std::exchange(postponed_, {})) complete(index);
    if (!report_.decisions || apart(block)) return;
    device_.unexpect();
    compare_segments(event);
    compare_address(event, number(address), block.address);
  }

  void compare_address(const LogEvent& event, std::uint64_t ours, std::uint64_t recorded) {
    ReplayDecisions& decisions = *report_.decisions;
    ++decisions.total;
    if (ours == recorded) {
      ++decisions.same;
    } else if (decisions.first_difference.empty()) {
      decisions.first_difference = "event " + std::to_string(event.position) + ": " +
                                   std::to_string(event.bytes) + " bytes at " + hex(recorded) +
                                   ", here at " + hex(ours);
    }
  }

  void compare_segments(const LogEvent& event) {
    ReplayDecisions& decisions = *report_.decisions;
    std::ranges::sort(expected_);
    std::ranges::sort(observer_.taken);
    std::vector<std::size_t> both;
    std::ranges::set_intersection(expected_, observer_.taken, std::back_inserter(both));
    decisions.segments_same += both.size();
    const std::size_t total = expected_.size() + observer_.taken.size() - both.size();
    decisions.segments_total += total;
    if (total != both.size() && decisions.first_difference.empty()) {
      decisions.first_difference = "event " + std::to_string(event.position) +
                                   ": other segments were taken for " +
                                   std::to_string(event.bytes) + " bytes";
    }
    expected_.clear();
  }

  // A free whose completion came later had uses on other streams: one stand-in for each such free,
  // done when the log says so.
  void free(const LogEvent& event) {
    const auto it = live_.find(event.block);
    if (it == live_.end()) return;
    void* address = it->second;
    live_.erase(it);
    ++report_.frees;
    if (deferred(event)) {
      free_later(event.block, address);
    } else {
      const trace::LoggedBlock& block = log_.blocks[event.block];
      allocator_.deallocate(address,
                            stream_of(block, log_.has_addresses() ? event.stream : block.stream));
    }
  }

  [[nodiscard]] bool deferred(const LogEvent& event) const {
    const LogEvent* next = &event + 1;
    const LogEvent* end = log_.events.data() + log_.events.size();
    while (next != end && next->device != number_) ++next;
    if (!log_.snapshot) return false;
    return next == end || next->kind != EventKind::free_completed || next->block != event.block;
  }

  void free_later(std::uint32_t index, void* address) {
    auto uses = std::make_unique<Stream>(ordered_);
    allocator_.record_use(address, *uses);
    allocator_.deallocate(address);
    pending_.emplace(index, std::move(uses));
  }

  void complete(const LogEvent& event) {
    if (!pending_.contains(event.block)) return;
    if (compares_ && retry_.keeps(event)) {
      postponed_.push_back(event.block);
    } else {
      complete(event.block);
    }
  }

  void complete(std::uint32_t index) {
    const auto it = pending_.find(index);
    device_.finish(it->second->handle());
    ordered_.poll();
    pending_.erase(it);
  }

  void finish() {
    if (refused_ > 0) {
      const std::string times = std::to_string(refused_) + (refused_ == 1 ? " time" : " times");
      report_.warnings.push_back(
          (log_.snapshot ? "PyTorch ran out of memory " : "the recorded allocator failed ") +
          times + (refused_ == 1 ? " (" : " (first: ") + first_refused_ +
          "): what failed is not replayed");
    }
    report_.statistics = allocator_.statistics();
    report_.ladder = attribute(trace_, {.window = {.begin = first_position_}});
    report_.load = bounds_.load;
    report_.packed = std::min(bounds_.packed, report_.ladder.packed);
    allocator_.observe(nullptr);
  }

  void note_reserved(std::uint64_t position, std::int64_t time_us) {
    const std::size_t replayed = observer_.reserved;
    auto& curve = report_.curve;
    const bool same =
        !curve.empty() && curve.back().recorded == recorded_ && curve.back().replayed == replayed;
    if (!same) curve.push_back({position, time_us, recorded_, replayed});
  }

  /** What PyTorch keeps apart: it behaves as a stream of its own. */
  using LaneKey = std::tuple<std::uint64_t, trace::TorchPool, bool>;  // handle, pool, apart

  /** Not where a segment is that could be modelled. */
  static bool apart(const trace::LoggedBlock& block) { return block.expandable || !block.placed; }

  StreamRef stream_of(const trace::LoggedBlock& block, std::uint32_t index) {
    const trace::LoggedStream& logged = log_.streams.at(index);
    const std::uint64_t handle =
        logged.thread == 0 ? logged.handle : logged.thread << 16 | logged.handle;
    if (!as_torch_) return lane({handle, {}, false});
    return lane({handle, block.pool, apart(block)});
  }

  StreamRef lane(const LaneKey& key) {
    auto& stream = lanes_[key];
    if (stream == nullptr) {
      const std::uint64_t handle = std::get<0>(key);
      stream = std::make_unique<Stream>(ordered_,
                                        StreamOptions{.name = "stream " + std::to_string(handle)});
    }
    return *stream;
  }

  const trace::AllocationLog& log_;
  const std::uint32_t number_;
  const bool as_torch_;  ///< PyTorch's settings and pools
  const bool compares_;  ///< and its layout at the start

  const RequestBounds bounds_;
  RecordedRetry retry_;

  TraceDevice device_;
  OrderedDevice ordered_;
  DeviceSource source_;
  std::map<LaneKey, std::unique_ptr<Stream>> lanes_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Stream>> pending_;
  std::vector<std::uint32_t> postponed_;  // completed, from the next request on
  CachingAllocator allocator_;
  AllocationTrace trace_;
  TakenSegments observer_;

  TracePosition first_position_ = 0;  // of the trace, after the start
  std::unordered_map<std::uint32_t, void*> live_;
  std::vector<std::size_t> expected_;
  std::size_t recorded_ = 0;
  std::size_t refused_ = 0;
  std::string first_refused_;
  ReplayReport report_;
};

}  // namespace

RequestBounds request_bounds(const trace::AllocationLog& log, std::uint32_t device) {
  const std::vector<Interval> blocks = trace::lifetimes(log, device);
  return {.load = max_load(blocks), .packed = best_pack(blocks).height};
}

ReplayReport replay(const trace::AllocationLog& log, std::uint32_t device,
                    const ReplayOptions& options) {
  return Replayer{log, device, options}.run();
}

}  // namespace millrace
