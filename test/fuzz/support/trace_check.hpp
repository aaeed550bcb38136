#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/observe/trace/parse_error.hpp"
#include "millrace/observe/trace/read_trace.hpp"

namespace millrace::trace::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

inline void check_events(const AllocationLog& log) {
  std::vector<EventKind> last(log.blocks.size(), EventKind::allocate);
  std::vector<bool> begun(log.blocks.size());
  for (std::size_t i = 0; i < log.blocks.size(); ++i) {
    begun[i] = log.blocks[i].live_at_start;
    require(log.blocks[i].stream < log.streams.size(), "a block's stream exists");
  }
  for (const LogEvent& event : log.events) {
    require(event.stream < log.streams.size(), "an event's stream exists");
    if (event.block == LogEvent::kNoBlock) continue;
    require(event.block < log.blocks.size(), "an event's block exists");
    require(begun[event.block] != (event.kind == EventKind::allocate),
            "allocate is first, and once");
    const bool again = begun[event.block] && event.kind == last[event.block];
    require(event.kind == EventKind::allocate || !again, "a block is freed once");
    begun[event.block] = true;
    last[event.block] = event.kind;
  }
}

inline void check_layout(const TorchLayout& layout) {
  std::uint64_t end = 0;
  for (const TorchSegment& segment : layout.segments) {
    require(segment.address >= end, "segments do not overlap");
    std::uint64_t at = segment.address;
    for (const TorchBlock& block : segment.blocks) {
      require(block.address == at && block.bytes > 0, "blocks follow each other");
      at += block.bytes;
    }
    end = segment.address + segment.bytes;
    require(at == end, "blocks fill their segment");
  }
}

/// Reads bytes, which must succeed or throw ParseError, and checks the guarantees of every
/// AllocationLog. Ends the process otherwise.
inline void read_and_check(const std::string& bytes) {
  TraceLimits limits;
  limits.max_inflated_bytes = 1 << 20;
  try {
    const AllocationLog log = parse_trace(bytes, "input", limits);
    check_events(log);
    for (const TorchLayout& layout : log.initial) check_layout(layout);
    const auto intervals = lifetimes(log);
    require(greedy_pack(intervals).height >= max_load(intervals), "no packing is below the load");
  } catch (const ParseError& problem) {
    require(std::string_view{problem.what()}.starts_with("input: "), "a refusal names the file");
  }
}

}  // namespace millrace::trace::fuzz
