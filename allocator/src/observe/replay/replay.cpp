#include "millrace/observe/replay.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/out_of_memory.hpp"
#include "millrace/observe/packing.hpp"
#include "millrace/observe/stream_names.hpp"
#include "observe/replay/decision_check.hpp"
#include "observe/replay/expandable_ranges.hpp"
#include "observe/replay/recorded_releases.hpp"
#include "observe/replay/recorded_retry.hpp"
#include "observe/replay/replay_lanes.hpp"
#include "observe/replay/replay_order.hpp"
#include "observe/replay/replay_warnings.hpp"
#include "observe/replay/site_tags.hpp"
#include "observe/replay/snapshot_notes.hpp"
#include "observe/replay/start_layout.hpp"
#include "observe/replay/taken_segments.hpp"
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
  if (settings.large_segment_size != 0) policy.medium_segment = settings.large_segment_size;
  policy.expandable_segments = policy.expandable_segments || settings.expandable_segments;
  return policy;
}

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

class Replayer {
 public:
  Replayer(const trace::AllocationLog& log, std::uint32_t device, const ReplayOptions& options)
      : log_(log),
        number_(device),
        as_torch_(log.snapshot.has_value() && options.policy.sharing == Sharing::own_stream),
        compares_(as_torch_ && options.start == ReplayStart::recorded),
        policy_(as_torch_ ? with_settings(options.policy, log.snapshot->settings) : options.policy),
        bounds_(options.bounds ? *options.bounds : request_bounds(log, device)),
        retry_(log, device),
        ranges_(recorded_ranges()),
        device_(options.device_bytes),
        ordered_(device_),
        source_(device_),
        lanes_(log, ordered_, as_torch_, policy_.expandable_segments),
        order_(log, device, ordered_, lanes_),
        allocator_(ordered_, source_, policy_),
        observer_(options.ladder || options.snapshot || options.traced ? &trace_ : nullptr),
        options_(options),
        refused_(log) {
    if (options.snapshot) notes_.emplace(log, device, trace_);
    report_.allocator = options.policy.name;
    report_.device = device;
    report_.device_bytes = options.device_bytes;
    report_.start = compares_ ? ReplayStart::recorded : ReplayStart::live_blocks;
    report_.warnings =
        warnings_of_blocks(log, device, {as_torch_, compares_, policy_.expandable_segments});
  }

  ReplayReport run() {
    start();
    const auto use = [&](std::uint32_t block, StreamRef stream) {
      const auto it = live_.find(block);
      if (it != live_.end()) allocator_.record_use(it->second, stream);
    };
    const auto hand = [&](std::uint32_t block, StreamRef stream) {
      const auto it = live_.find(block);
      if (it != live_.end()) allocator_.transfer(it->second, stream);
    };
    for (std::size_t i = 0; i < log_.events.size(); ++i) {
      order_.before(i, use, hand);
      if (log_.events[i].kind != EventKind::segment_unmap) unmap();
      if (const auto base = new_ranges_.find(i); base != new_ranges_.end()) {
        device_.expect_range(base->second);
      }
      if (log_.events[i].device == number_) {
        if (notes_) notes_->note_marks(log_.events[i].time_us);
        apply(log_.events[i]);
      }
    }
    unmap();
    if (notes_) notes_->note_marks(std::numeric_limits<std::int64_t>::max());
    finish();
    return std::move(report_);
  }

 private:
  // If the log has no usable ranges, blocks of expandable segments are replayed in ordinary
  // segments.
  std::optional<std::vector<ExpandableRange>> recorded_ranges() {
    if (!compares_ || !policy_.expandable_segments) return std::nullopt;
    auto ranges = expandable_ranges(log_, number_, policy_);
    if (!ranges) policy_.expandable_segments = false;
    return ranges;
  }

  // Makes the layout before the first event: the recorded one, or one from requests of the live
  // blocks.
  void start() {
    if (number_ < log_.initial.size()) {
      for (const trace::TorchSegment& segment : log_.initial[number_].segments) {
        recorded_ += segment.bytes;
      }
      report_.recorded_peak = recorded_;
    }
    if (knows_order(log_.format)) {
      for (const LogEvent& event : log_.events) {
        if (event.kind == EventKind::free_completed) completes_.insert(event.block);
      }
    }
    allocator_.observe(&observer_);
    if (compares_) restore();
    for (std::uint32_t i = 0; i < log_.blocks.size(); ++i) {
      const trace::LoggedBlock& block = log_.blocks[i];
      if (block.device != number_ || !block.live_at_start || live_.contains(i)) continue;
      live_[i] = allocator_.allocate(block.bytes, lanes_.of(block, block.stream));
      if (notes_) notes_->note_block(i);
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

  void restore() {
    StartLayout start = recorded_start(log_, number_, ranges_, lanes_, device_);
    allocator_.restore(start.segments, start.ranges);
    live_ = std::move(start.live);
    new_ranges_ = std::move(start.later_ranges);
  }

  // Pages that PyTorch unmapped since the last other event.
  void unmap() {
    if (unmapped_.empty()) return;
    std::ranges::sort(unmapped_, {}, &AddressRange::base);
    allocator_.release_pages(unmapped_);
    unmapped_.clear();
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
        if (!compares_ || (event.kind == EventKind::segment_map && !ranges_)) break;
        if (event.kind == EventKind::segment_alloc) device_.expect(event.address, event.bytes);
        decisions_.expect_segment(event.bytes);
        break;
      case EventKind::segment_free:
      case EventKind::segment_unmap:
        recorded_ -= std::min<std::size_t>(recorded_, event.bytes);
        if (compares_ && event.kind == EventKind::segment_unmap) {
          unmapped_.push_back({reinterpret_cast<void*>(event.address), event.bytes});
        } else if (compares_) {
          allocator_.release_segment(reinterpret_cast<void*>(event.address));
        } else if (log_.snapshot && program_emptied_cache(log_, event)) {
          allocator_.trim();
        }
        break;
      case EventKind::out_of_memory:
        refused_.add(event);
        if (options_.retries_failed && !compares_) retry(event);
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
    const bool has_first_user = knows_order(log_.format) && block.stream != event.stream;
    const StreamRef user = lanes_.of(block, event.stream);
    const StreamRef owner = has_first_user ? lanes_.of_stream(block.stream) : user;
    void* address = allocator_.allocate(
        block.bytes, owner, user, options_.sites ? sites_.of(event.stack, block.label) : Tag{});
    live_[event.block] = address;
    if (notes_) notes_->note_block(event.block);
    ++report_.allocations;
    for (const std::uint32_t index : std::exchange(postponed_, {})) complete(index);
    if (!compares_ || lanes_.apart(block)) return;
    device_.unexpect();
    decisions_.compare(event, block.address, observer_.taken, number(address));
  }

  static constexpr std::uint64_t kMostRequested = std::uint64_t{1} << 46;

  // The program continued without the memory, so the block of this request is freed at once.
  void retry(const LogEvent& event) {
    ++report_.retried.tried;
    report_.retried.last_served = false;
    if (event.bytes == 0 || event.bytes > kMostRequested) return;  // no program requests this
    const StreamRef stream = lanes_.of(trace::LoggedBlock{}, event.stream);
    try {
      allocator_.deallocate(allocator_.allocate(event.bytes, stream), stream);
    } catch (const out_of_memory&) {
      return;
    }
    ++report_.retried.served;
    report_.retried.last_served = true;
  }

  // A free that completed later had uses on other streams. One substitute represents them, and
  // completes when the log says so.
  void free(const LogEvent& event) {
    const auto it = live_.find(event.block);
    if (it == live_.end()) return;
    void* address = it->second;
    live_.erase(it);
    ++report_.frees;
    if (knows_order(log_.format)) {
      free_in_order(event, address);
    } else if (deferred(event)) {
      free_later(event.block, address);
    } else {
      const trace::LoggedBlock& block = log_.blocks[event.block];
      allocator_.deallocate(address,
                            lanes_.of(block, log_.has_addresses() ? event.stream : block.stream));
    }
  }

  // The free is in the order of a stream. If it names none, all work on the block is complete.
  void free_in_order(const LogEvent& event, void* address) {
    const StreamRef stream = lanes_.of_stream(event.stream);
    allocator_.deallocate(address, stream);
    if (log_.streams[event.stream].for_all) {
      ordered_.synchronize(stream);
    } else if (completes_.contains(event.block)) {
      order_.await(event.block, stream);
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
    order_.complete(event.block);
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
    if (report_.retried.tried == 0) refused_.warn(report_.warnings);
    if (compares_) report_.decisions = decisions_.decisions();
    report_.statistics = allocator_.statistics();
    report_.load = bounds_.load;
    report_.packed = bounds_.packed;
    if (options_.ladder) {
      // A log that contradicts itself allocates memory that is in use.
      const bool is_illegal =
          options_.start == ReplayStart::recorded && !find_illegal_reuse(trace_).empty();
      if (is_illegal) {
        report_.warnings.emplace_back(
            "the file contradicts itself: it has blocks in memory that was still in use. The "
            "ladder takes their reuse as ordered");
      }
      report_.ladder = attribute(
          trace_, {.window = {.begin = first_position_}, .reuse_proves_order = is_illegal});
      report_.packed = std::min(bounds_.packed, report_.ladder.packed);
    }
    if (notes_) report_.snapshot = notes_->snapshot(lanes_);
    if (options_.traced) options_.traced(trace_, stream_names(trace_, ordered_));
    allocator_.observe(nullptr);
  }

  void note_reserved(std::uint64_t position, std::int64_t time_us) {
    const std::size_t replayed = observer_.reserved;
    auto& curve = report_.curve;
    const bool same =
        !curve.empty() && curve.back().recorded == recorded_ && curve.back().replayed == replayed;
    if (!same) curve.push_back({position, time_us, recorded_, replayed});
  }

  const trace::AllocationLog& log_;
  const std::uint32_t number_;
  const bool as_torch_;  ///< PyTorch's settings and pools
  const bool compares_;  ///< also its layout at the start
  Policy policy_;

  const RequestBounds bounds_;
  RecordedRetry retry_;
  const std::optional<std::vector<ExpandableRange>> ranges_;  ///< of PyTorch's expandable segments

  TraceDevice device_;
  OrderedDevice ordered_;
  DeviceSource source_;
  ReplayLanes lanes_;
  ReplayOrder order_;
  std::unordered_map<std::uint32_t, std::unique_ptr<Stream>> pending_;
  std::unordered_set<std::uint32_t> completes_;  // blocks whose completion the log has
  std::vector<std::uint32_t> postponed_;         // blocks that become free after the next request
  std::unordered_map<std::size_t, std::uint64_t>
      new_ranges_;                      // address, by the event that needs it
  std::vector<AddressRange> unmapped_;  // to be unmapped before the next other event
  CachingAllocator allocator_;
  SiteTags sites_{log_, allocator_};
  AllocationTrace trace_;
  std::optional<SnapshotNotes> notes_;  // for a snapshot of the replay
  TakenSegments observer_;
  const ReplayOptions options_;

  TracePosition first_position_ = 0;  // first position of the trace after the start
  std::unordered_map<std::uint32_t, void*> live_;
  DecisionCheck decisions_;
  RefusedRequests refused_;
  std::size_t recorded_ = 0;
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
