#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace::trace {

/**
 * @brief Finds the streams of segments, which the format does not have: a segment was acquired for
 *        the first block in it.
 */
class NewSegments {
 public:
  explicit NewSegments(std::vector<LogEvent>& events) : events_(events) {}

  /** @brief The newest event acquires a segment. */
  void acquired() {
    const LogEvent& event = events_.back();
    if (event.address == 0 || event.bytes == 0) return;
    released(event.device, event.address, event.bytes);
    unused_[event.device].emplace(event.address,
                                  Unused{event.address + event.bytes, events_.size() - 1});
  }

  /** @brief These addresses are given back. */
  void released(std::uint32_t device, std::uint64_t address, std::uint64_t bytes) {
    over(device, address, bytes, [](std::size_t) {});
  }

  /** @brief The segments that the block lies in, if it is their first, are its stream's. */
  void allocated(const LogEvent& block) {
    over(block.device, block.address, block.bytes,
         [&](std::size_t segment) { events_[segment].stream = block.stream; });
  }

 private:
  struct Unused {
    std::uint64_t end = 0;
    std::size_t event = 0;
  };

  /** Calls `found` with the events of the unused segments there, and forgets these. */
  template <typename Found>
  void over(std::uint32_t device, std::uint64_t address, std::uint64_t bytes, const Found& found) {
    const auto of_device = unused_.find(device);
    if (of_device == unused_.end() || of_device->second.empty()) return;
    std::map<std::uint64_t, Unused>& segments = of_device->second;
    auto at = segments.upper_bound(address);
    if (at != segments.begin() && std::prev(at)->second.end > address) --at;
    while (at != segments.end() && at->first < address + bytes) {
      found(at->second.event);
      at = segments.erase(at);
    }
  }

  std::vector<LogEvent>& events_;
  std::map<std::uint32_t, std::map<std::uint64_t, Unused>> unused_;  // by device and address
};

}  // namespace millrace::trace
