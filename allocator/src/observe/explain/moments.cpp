#include "observe/explain/moments.hpp"

#include <algorithm>

namespace millrace {

namespace {

using trace::EventKind;
using trace::LogEvent;

class Finder {
 public:
  Finder(const trace::AllocationLog& log, const DeviceLog& device, MemoryMap& map)
      : log_(log), device_(device), map_(map) {}

  Moments run() {
    found_.knows_segments = !map_.segments().empty();
    peak_ = map_.reserved();
    found_.most_live = most_live_at_peak_ = map_.live();
    for (std::size_t i = 0; i < device_.events.size(); ++i) {
      const LogEvent& event = log_.events[device_.events[i]];
      map_.apply(event);
      if (event.kind == EventKind::out_of_memory) found_.failures.push_back(i);
      found_.most_live = std::max(found_.most_live, map_.live());
      look(event, i);
    }
    found_.shares_streams = map_.shares_streams();
    return std::move(found_);
  }

 private:
  void look(const LogEvent& event, std::size_t i) {
    const std::uint64_t reserved = map_.reserved();
    found_.knows_segments = found_.knows_segments || reserved > 0;
    if (reserved > peak_) {
      peak_ = reserved;
      grew_ = awaits_request_ = true;
      found_.peak = i;
      found_.asker = {.stream = event.stream, .requests = false, .stack = event.stack};
    } else if (!grew_ && reserved == peak_ && map_.live() > most_live_at_peak_) {
      most_live_at_peak_ = map_.live();
      found_.peak = i;
    } else if (awaits_request_ && reserved < peak_) {
      awaits_request_ = false;
    }
    if (awaits_request_) await_request(event, i);
  }

  // The request for which the allocator acquired memory follows in the log.
  void await_request(const LogEvent& event, std::size_t i) {
    if (event.kind == EventKind::allocate) {
      const trace::LoggedBlock& block = log_.blocks[event.block];
      found_.peak = i;
      found_.asker = {.stream = event.stream,
                      .pool = block.pool,
                      .requests = true,
                      .bytes = block.bytes,
                      .stack = block.stack};
      awaits_request_ = false;
    } else if (event.kind == EventKind::free_requested || event.kind == EventKind::out_of_memory) {
      awaits_request_ = false;
    }
  }

  const trace::AllocationLog& log_;
  const DeviceLog& device_;
  MemoryMap& map_;
  Moments found_;
  std::uint64_t peak_ = 0;
  std::uint64_t most_live_at_peak_ = 0;
  bool grew_ = false;  // within the log
  bool awaits_request_ = false;
};

}  // namespace

Moments find_moments(const trace::AllocationLog& log, const DeviceLog& device,
                     const BlockTimes& times, ExplainedStreams& streams,
                     std::vector<std::uint64_t>& ends) {
  MemoryMap map{log, device, times, streams, ends};
  return Finder{log, device, map}.run();
}

}  // namespace millrace
