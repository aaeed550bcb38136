#include "explain/page_segments.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

#include "explain/page_blocks.hpp"
#include "explain/words.hpp"
#include "page/free_memory.hpp"

namespace millrace::cli {
namespace {

using trace::EventKind;
using trace::LogEvent;

/** The present segments of one device, by address. Values are indices into the page's segments. */
using Open = std::map<std::uint64_t, std::uint32_t>;

class SegmentMaker {
 public:
  SegmentMaker(PageRun& run, const trace::AllocationLog& log, const Explanation& explanation)
      : run_(run), log_(log), segments_(run.segments), known_pools_(run.pools.size()) {
    for (const DeviceExplanation& device : explanation.devices) {
      if (!device.shares_streams || !device.peak.reserved) continue;
      free_.try_emplace(device.device, run.blocks, device.device);
    }
  }

  void run(const Explanation& explanation) {
    for (std::uint32_t device = 0; device < log_.initial.size(); ++device) {
      for (const trace::TorchSegment& segment : log_.initial[device].segments) {
        const trace::LoggedStream stream{device, static_cast<std::uint64_t>(segment.stream), 0};
        const auto known = std::ranges::find(explanation.streams, stream);
        add({.address = segment.address,
             .bytes = segment.bytes,
             .device = device,
             .stream = known == explanation.streams.end()
                           ? kUnknown
                           : static_cast<std::uint32_t>(known - explanation.streams.begin()),
             .pool = pool_of(segment.pool),
             .expandable = segment.expandable});
        has_pool_.back() = true;
      }
    }
    for (std::uint32_t i = 0; i < log_.blocks.size(); ++i) {
      if (log_.blocks[i].live_at_start) place(i, 0);
    }
    const PageEvent first = first_event_of(log_);
    for (PageEvent i = 0; i < log_.events.size(); ++i) apply(log_.events[i], first + i);
    for (auto& [device, memory] : free_) {
      const std::vector<PageFree> free = memory.finish(run_.events);
      run_.free.insert(run_.free.end(), free.begin(), free.end());
    }
  }

 private:
  // A segment belongs to the pool of the block for which it was acquired.
  void place(std::uint32_t index, PageEvent now) {
    PageBlock& block = run_.blocks[index];
    if (block.address == kUnknownBytes) return;
    const Open& open = open_[block.device];
    auto at = open.upper_bound(block.address);
    if (at != open.begin() && end_of((--at)->second) > block.address) {
      if (!has_pool_[at->second]) {
        segments_[at->second].pool = pool_of(log_.blocks[index].pool);
        has_pool_[at->second] = true;
      }
      block.pool = segments_[at->second].pool;
      block.placed = true;
    }
    const auto memory = free_.find(block.device);
    if (memory != free_.end()) static_cast<void>(memory->second.taken(index, now));
  }

  // Caches the lookup. A program may have as many pools as segments.
  std::uint32_t pool_of(const trace::TorchPool& pool) {
    const auto [known, fresh] = pools_.try_emplace(pool, kUnknown);
    if (fresh && pool != trace::TorchPool{0, 0}) {
      const auto before = run_.pools.begin() + static_cast<std::ptrdiff_t>(known_pools_);
      const auto named = std::find(run_.pools.begin(), before, pool_name(pool));
      known->second = static_cast<std::uint32_t>((named == before ? run_.pools.end() : named) -
                                                 run_.pools.begin());
      if (named == before) run_.pools.push_back(pool_name(pool));
    }
    return known->second;
  }

  void apply(const LogEvent& event, PageEvent now) {
    if (event.kind == EventKind::allocate) return place(event.block, now);
    const bool maps = event.kind == EventKind::segment_map;
    if (!trace::has_place(log_, event)) {
      if (maps || event.kind == EventKind::segment_alloc) {
        add_unplaced(event, now);
      } else {
        remove_unplaced(event, now);
      }
    } else if (maps || event.kind == EventKind::segment_alloc) {
      if (event.bytes == 0) return;
      close(event, now);
      add({.address = event.address,
           .bytes = event.bytes,
           .device = event.device,
           .stream = event.stream,
           .mapped = now,
           .expandable = maps});
    } else if (event.kind == EventKind::segment_free || event.kind == EventKind::segment_unmap) {
      close(event, now);
    }
  }

  void add_unplaced(const LogEvent& event, PageEvent now) {
    if (event.bytes == 0) return;
    unplaced_[event.device].push_back(static_cast<std::uint32_t>(segments_.size()));
    segments_.push_back({.bytes = event.bytes, .device = event.device, .mapped = now});
    has_pool_.push_back(true);
    held_[event.device] += event.bytes;
  }

  // Removes the newest segments first. Any segment at an unknown address may be the released one.
  void remove_unplaced(const LogEvent& event, PageEvent now) {
    std::uint64_t& held = held_[event.device];
    if (event.bytes >= held) {  // the device was reset
      for (const auto& [address, index] : open_[event.device]) segments_[index].unmapped = now;
      open_[event.device].clear();
      if (const auto memory = free_.find(event.device); memory != free_.end())
        memory->second.released(0, kUnknownBytes, now);
    }
    std::uint64_t bytes = event.bytes;
    std::vector<std::uint32_t>& unplaced = unplaced_[event.device];
    while (bytes > 0 && !unplaced.empty()) {
      PageSegment& segment = segments_[unplaced.back()];
      unplaced.pop_back();
      segment.unmapped = now;
      const std::uint64_t gone = std::min(bytes, segment.bytes);
      PageSegment rest = segment;
      rest.unmapped = kUnknown;
      rest.bytes -= gone;
      segment.bytes = gone;
      bytes -= gone;
      held -= std::min(held, gone);
      if (rest.bytes == 0) continue;
      unplaced.push_back(static_cast<std::uint32_t>(segments_.size()));
      segments_.push_back(rest);
      has_pool_.push_back(true);
    }
    held -= std::min(held, bytes);
  }

  void add(PageSegment segment) {
    held_[segment.device] += segment.bytes;
    open_[segment.device][segment.address] = static_cast<std::uint32_t>(segments_.size());
    if (const auto memory = free_.find(segment.device); memory != free_.end()) {
      memory->second.acquired(segment.address, segment.address + segment.bytes, segment.stream,
                              segment.mapped == kUnknown ? 0 : segment.mapped);
      segment.stream = kUnknown;
    }
    segments_.push_back(segment);
    has_pool_.push_back(false);
  }

  /** Ends the segments in the range of an event. The rest of a segment becomes a new segment. */
  void close(const LogEvent& event, PageEvent now) {
    const std::uint64_t begin = event.address, end = event.address + event.bytes;
    Open& open = open_[event.device];
    auto at = open.lower_bound(begin);
    if (at != open.begin() && end_of(std::prev(at)->second) > begin) --at;
    std::vector<std::pair<PageSegment, bool>> rests;  // segment, and whether its pool is known
    if (const auto memory = free_.find(event.device); memory != free_.end())
      memory->second.released(begin, end, now);
    while (at != open.end() && at->first < end) {
      PageSegment& segment = segments_[at->second];
      held_[segment.device] -= segment.bytes;
      const std::uint64_t segment_end = segment.address + segment.bytes;
      PageSegment rest = segment;
      if (segment.address < begin) {
        rest.bytes = begin - segment.address;
        rests.emplace_back(rest, has_pool_[at->second]);
      }
      if (segment_end > end) {
        rest.address = end;
        rest.bytes = segment_end - end;
        rests.emplace_back(rest, has_pool_[at->second]);
      }
      segment.address = std::max(segment.address, begin);
      segment.bytes = std::min(segment_end, end) - segment.address;
      segment.unmapped = now;
      at = open.erase(at);
    }
    for (const auto& [rest, has_pool] : rests) {
      held_[rest.device] += rest.bytes;
      open_[rest.device][rest.address] = static_cast<std::uint32_t>(segments_.size());
      segments_.push_back(rest);
      has_pool_.push_back(has_pool);
    }
  }

  [[nodiscard]] std::uint64_t end_of(std::uint32_t segment) const {
    return segments_[segment].address + segments_[segment].bytes;
  }

  PageRun& run_;
  const trace::AllocationLog& log_;
  std::vector<PageSegment>& segments_;
  const std::size_t known_pools_;  // pools of blocks, added before those of segments
  std::map<trace::TorchPool, std::uint32_t> pools_;
  std::vector<bool> has_pool_;                                    // by segment
  std::map<std::uint32_t, FreeMemory> free_;                      // by device with shared streams
  std::map<std::uint32_t, Open> open_;                            // by device
  std::map<std::uint32_t, std::uint64_t> held_;                   // bytes, by device
  std::map<std::uint32_t, std::vector<std::uint32_t>> unplaced_;  // at unknown addresses, by device
};

}  // namespace

std::uint32_t page_pool_of(PageRun& run, const trace::TorchPool& pool) {
  if (pool == trace::TorchPool{0, 0}) return kUnknown;
  const std::string name = pool_name(pool);
  const auto known = std::ranges::find(run.pools, name);
  if (known != run.pools.end()) return static_cast<std::uint32_t>(known - run.pools.begin());
  run.pools.push_back(name);
  return static_cast<std::uint32_t>(run.pools.size() - 1);
}

void add_page_segments(PageRun& run, const trace::AllocationLog& log,
                       const Explanation& explanation) {
  SegmentMaker{run, log, explanation}.run(explanation);
}

}  // namespace millrace::cli
