#include "page/check.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace millrace::cli {
namespace {

// JavaScript numbers are exact up to 2^53.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 53;
constexpr double kMostClock = 9e12;  // 100 days in microseconds

[[noreturn]] void refuse_page(const std::string& what) {
  throw std::invalid_argument{"a page cannot be written: " + what};
}

void check_index(std::uint32_t index, std::size_t size, const char* what) {
  if (index != kUnknown && index >= size) {
    refuse_page(fmt::format("{} {} of {}", what, index, size));
  }
}

void check_event(PageEvent event, const PageRun& run) {
  if (event != kUnknown && event > run.events) {
    refuse_page(fmt::format("event {} of {}", event, run.events));
  }
}

void check_bytes(std::uint64_t bytes, const char* what) {
  if (bytes != kUnknownBytes && bytes >= kMostBytes) {
    refuse_page(fmt::format("{} {} has more than 53 bits", what, bytes));
  }
}

void check_clock(const PageRun& run, double at) {
  const double start = run.times_us.empty() ? 0 : run.times_us.front();
  if (!std::isfinite(at) || std::abs(at - start) > kMostClock) {
    refuse_page(fmt::format("a time is {}", at));
  }
}

void check_times(const PageRun& run) {
  const auto check_each = [&](std::size_t count, const char* what) {
    if (count != 0 && count != run.events) {
      refuse_page(fmt::format("{} events have {} {}", run.events, count, what));
    }
  };
  check_each(run.positions.size(), "positions");
  check_each(run.devices_of_events.size(), "devices");
  if (!run.times_us.empty() && run.times_us.size() != run.events) {
    refuse_page(fmt::format("{} events have {} times", run.events, run.times_us.size()));
  }
  for (std::size_t i = 0; i < run.times_us.size(); ++i) {
    check_clock(run, run.times_us[i]);
    if (i > 0 && run.times_us[i] < run.times_us[i - 1]) {
      refuse_page(fmt::format("event {} is earlier than the one before it", i));
    }
  }
}

void check_device(std::uint32_t device, const PageRun& run) {
  check_index(device == kUnknown ? kUnknown - 1 : device, run.devices, "device");
}

void check_block(const PageBlock& block, const PageRun& run) {
  check_bytes(block.address, "address");
  check_bytes(block.bytes, "size");
  check_bytes(block.requested, "size");
  check_device(block.device, run);
  check_index(block.stream, run.streams.size(), "stream");
  check_index(block.tag, run.tags.size(), "tag");
  check_index(block.stack, run.stacks.size(), "stack");
  check_index(block.previous, run.blocks.size(), "block");
  check_index(block.site, run.sites.size(), "site");
  check_index(block.pool, run.pools.size(), "pool");
  check_index(block.wait, run.arrows.size(), "arrow");
  for (const PageEvent event : {block.allocated, block.freed, block.ready}) check_event(event, run);
}

void check_segment(const PageSegment& segment, const PageRun& run) {
  check_bytes(segment.address, "address");
  check_bytes(segment.bytes, "size");
  check_device(segment.device, run);
  check_index(segment.stream, run.streams.size(), "stream");
  check_index(segment.pool, run.pools.size(), "pool");
  check_event(segment.mapped, run);
  check_event(segment.unmapped, run);
}

void check_free(const PageRun& run) {
  for (const PageFree& free : run.free) {
    check_bytes(free.address, "address");
    check_bytes(free.bytes, "size");
    check_device(free.device, run);
    check_index(free.stream, run.streams.size(), "stream");
    check_event(free.from, run);
    check_event(free.to, run);
  }
  for (const PageAsker& asker : run.askers) {
    check_device(asker.device, run);
    check_index(asker.stream, run.streams.size(), "stream");
    check_index(asker.pool, run.pools.size(), "pool");
  }
}

void check_lanes(const PageRun& run) {
  for (const PageOperation& operation : run.operations) {
    check_index(operation.stream, run.streams.size(), "stream");
    check_index(operation.name, run.names.size(), "name");
    check_clock(run, operation.begin);
    check_clock(run, operation.end);
  }
  for (const PageArrow& arrow : run.arrows) {
    check_index(arrow.from_stream, run.streams.size(), "stream");
    check_index(arrow.to_stream, run.streams.size(), "stream");
    check_clock(run, arrow.from);
    check_clock(run, arrow.to);
  }
  for (const PageMark& mark : run.marks) {
    check_clock(run, mark.begin);
    check_clock(run, mark.end);
    check_index(mark.device, run.devices, "device");
    check_event(mark.event, run);
  }
}

void check_counter(const PageCounter& counter, const PageRun& run) {
  check_device(counter.device, run);
  double last = counter.points.empty() ? 0 : counter.points.front().first;
  for (const auto& [at, bytes] : counter.points) {
    check_clock(run, at);
    if (at < last) refuse_page(fmt::format("counter {} goes back in time", counter.name));
    if (bytes) check_bytes(*bytes, "size");
    last = at;
  }
}

void check_run(const PageRun& run) {
  if (run.devices == 0) refuse_page("a run has no device");
  check_times(run);
  for (const PageStream& stream : run.streams) check_device(stream.device, run);
  for (const std::vector<std::uint32_t>& stack : run.stacks) {
    for (const std::uint32_t frame : stack) check_index(frame, run.frames.size(), "frame");
  }
  for (const PageBlock& block : run.blocks) check_block(block, run);
  for (const PageSegment& segment : run.segments) check_segment(segment, run);
  check_free(run);
  check_lanes(run);
  for (const PageCounter& counter : run.counters) check_counter(counter, run);
  for (const PageRows& table : run.tables) check_device(table.device, run);
}

}  // namespace

void check_page(const PageData& data) {
  if (data.runs.empty() || data.runs.size() > 2) {
    refuse_page(fmt::format("it has {} runs, not one or two", data.runs.size()));
  }
  for (const PageRun& run : data.runs) check_run(run);
}

}  // namespace millrace::cli
