#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "millrace/observe/trace/torch_snapshot.hpp"

namespace millrace::test {

/// The sums of the events of a snapshot's first device.
struct SnapshotFigures {
  explicit SnapshotFigures(const trace::TorchSnapshot& from) {
    for (const trace::TorchEvent& event : from.traces.at(0)) {
      using enum trace::TorchAction;
      switch (event.action) {
        case alloc:
          ++allocations;
          live[event.address] = event.bytes;
          labels.insert(from.labels.at(event.label));
          break;
        case free_requested:
          live.erase(event.address);
          break;
        case segment_alloc:
        case segment_map:
          reserved += event.bytes;
          peak = std::max(peak, reserved);
          break;
        case segment_free:
        case segment_unmap:
          reserved -= event.bytes;
          break;
        default:
          break;
      }
    }
    for (const auto& segment : from.segments) held += segment.bytes;
  }

  std::map<std::uint64_t, std::uint64_t> live;  ///< bytes by address
  std::uint64_t allocations = 0;
  std::uint64_t reserved = 0, peak = 0;  ///< bytes, at the end and at most
  std::uint64_t held = 0;                ///< bytes of the segments at the end
  std::set<std::string> labels;          ///< labels of allocations
};

}  // namespace millrace::test
