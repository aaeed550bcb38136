#include "explain/page_segments.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace millrace::cli {
namespace {

using trace::EventKind;
using trace::LogEvent;

/** Segments of one device that are there now, by address: indices into the page's. */
using Open = std::map<std::uint64_t, std::uint32_t>;

class SegmentMaker {
 public:
  SegmentMaker(const trace::AllocationLog& log, std::uint32_t expandable)
      : log_(log), expandable_(expandable) {}

  std::vector<PageSegment> run(const Explanation& explanation) {
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
             .label = segment.expandable ? expandable_ : kUnknown});
      }
    }
    for (PageEvent i = 0; i < log_.events.size(); ++i) apply(log_.events[i], i);
    return std::move(segments_);
  }

 private:
  void apply(const LogEvent& event, PageEvent now) {
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
           .stream = log_.snapshot ? event.stream : kUnknown,
           .mapped = now,
           .label = maps ? expandable_ : kUnknown});
    } else if (event.kind == EventKind::segment_free || event.kind == EventKind::segment_unmap) {
      close(event, now);
    }
  }

  void add_unplaced(const LogEvent& event, PageEvent now) {
    if (event.bytes == 0) return;
    unplaced_[event.device].push_back(static_cast<std::uint32_t>(segments_.size()));
    segments_.push_back({.bytes = event.bytes, .device = event.device, .mapped = now});
    held_[event.device] += event.bytes;
  }

  // The newest first: of several segments at unknown addresses, any may be the one that is gone.
  void remove_unplaced(const LogEvent& event, PageEvent now) {
    std::uint64_t& held = held_[event.device];
    if (event.bytes >= held) {  // a reset of the device
      for (const auto& [address, index] : open_[event.device]) segments_[index].unmapped = now;
      open_[event.device].clear();
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
    }
    held -= std::min(held, bytes);
  }

  void add(const PageSegment& segment) {
    held_[segment.device] += segment.bytes;
    open_[segment.device][segment.address] = static_cast<std::uint32_t>(segments_.size());
    segments_.push_back(segment);
  }

  /** Ends what is in the range of an event. What is left of a segment goes on as another one. */
  void close(const LogEvent& event, PageEvent now) {
    const std::uint64_t begin = event.address, end = event.address + event.bytes;
    Open& open = open_[event.device];
    auto at = open.lower_bound(begin);
    if (at != open.begin() && end_of(std::prev(at)->second) > begin) --at;
    std::vector<PageSegment> rests;
    while (at != open.end() && at->first < end) {
      PageSegment& segment = segments_[at->second];
      held_[segment.device] -= segment.bytes;
      const std::uint64_t segment_end = segment.address + segment.bytes;
      PageSegment rest = segment;
      if (segment.address < begin) {
        rest.bytes = begin - segment.address;
        rests.push_back(rest);
      }
      if (segment_end > end) {
        rest.address = end;
        rest.bytes = segment_end - end;
        rests.push_back(rest);
      }
      segment.address = std::max(segment.address, begin);
      segment.bytes = std::min(segment_end, end) - segment.address;
      segment.unmapped = now;
      at = open.erase(at);
    }
    for (const PageSegment& rest : rests) add(rest);
  }

  [[nodiscard]] std::uint64_t end_of(std::uint32_t segment) const {
    return segments_[segment].address + segments_[segment].bytes;
  }

  const trace::AllocationLog& log_;
  const std::uint32_t expandable_;
  std::vector<PageSegment> segments_;
  std::map<std::uint32_t, Open> open_;                            // by device
  std::map<std::uint32_t, std::uint64_t> held_;                   // bytes, by device
  std::map<std::uint32_t, std::vector<std::uint32_t>> unplaced_;  // at unknown addresses, by device
};

}  // namespace

std::vector<PageSegment> page_segments_of(const trace::AllocationLog& log,
                                          const Explanation& explanation,
                                          std::uint32_t expandable) {
  return SegmentMaker{log, expandable}.run(explanation);
}

}  // namespace millrace::cli
