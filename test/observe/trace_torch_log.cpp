#include <rapidcheck.h>

#include <string>

#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/pickle_writer.hpp"

namespace {

using nlohmann::json;
using namespace millrace::trace;

constexpr std::uint64_t kLogBase = std::uint64_t{1} << 40;
constexpr std::uint64_t kSegment = 2 << 20;

TorchSnapshot one_segment(std::vector<TorchEvent> events) {
  TorchSnapshot snapshot;
  TorchSegment segment;
  segment.address = kLogBase;
  segment.bytes = kSegment;
  segment.stream = 7;
  segment.blocks = {{kLogBase, 1024, 1000, BlockState::allocated},
                    {kLogBase + 1024, kSegment - 1024, 0, BlockState::inactive}};
  snapshot.segments = {segment};
  snapshot.traces = {std::move(events)};
  return snapshot;
}

AllocationLog read_log(const TorchSnapshot& snapshot) {
  return parse_trace(millrace::test::to_pickle(millrace::test::to_json(snapshot)), "file");
}

std::vector<std::pair<EventKind, std::uint32_t>> kinds(const AllocationLog& log) {
  std::vector<std::pair<EventKind, std::uint32_t>> result;
  for (const LogEvent& event : log.events) result.emplace_back(event.kind, event.block);
  return result;
}

using Kinds = std::vector<std::pair<EventKind, std::uint32_t>>;

}  // namespace

TEST_CASE("a block from before the trace is live at its start, and its free names it") {
  const auto log =
      read_log(one_segment({{TorchAction::free_requested, kLogBase + 2048, 300, 9, 1},
                            {TorchAction::free_completed, kLogBase + 2048, 300, 9, 2}}));
  CHECK(log.warnings.empty());
  REQUIRE(log.blocks.size() == 2);
  CHECK(log.blocks[1].address == kLogBase + 2048);
  CHECK(log.blocks[1].bytes == 300);
  CHECK(log.blocks[1].live_at_start);
  CHECK(log.blocks[1].placed);
  CHECK(log.streams[log.blocks[1].stream].handle == 7);
  CHECK(kinds(log) == Kinds{{EventKind::free_requested, 1}, {EventKind::free_completed, 1}});
}

TEST_CASE("a free that is pending at the start of the trace only completes") {
  const auto log =
      read_log(one_segment({{TorchAction::free_completed, kLogBase + 2048, 300, 7, 1},
                            {TorchAction::alloc, kLogBase + 2048, 200, 7, 2},
                            {TorchAction::free_requested, kLogBase + 2048, 200, 7, 3},
                            {TorchAction::free_completed, kLogBase + 2048, 200, 7, 4}}));
  CHECK(log.warnings.empty());
  CHECK(kinds(log) == Kinds{{EventKind::free_completed, 1},
                            {EventKind::allocate, 2},
                            {EventKind::free_requested, 2},
                            {EventKind::free_completed, 2}});
}

TEST_CASE("segments and failures of PyTorch are in the log") {
  TorchSnapshot snapshot =
      one_segment({{TorchAction::segment_free, kLogBase + 2 * kSegment, kSegment, 7, 1},
                   {TorchAction::out_of_memory, 4096, 123456, 7, 2},
                   {TorchAction::snapshot, 0, 0, 0, 3}});
  const auto log = read_log(snapshot);
  CHECK(log.warnings.empty());
  REQUIRE(log.events.size() == 2);
  CHECK(log.events[0].kind == EventKind::segment_free);
  CHECK(log.events[0].bytes == kSegment);
  CHECK(log.events[1].kind == EventKind::out_of_memory);
  CHECK(log.events[1].bytes == 123456);
  CHECK(log.events[1].address == 0);
  CHECK(log.initial[0].segments.size() == 2);
}

TEST_CASE("missing requests of frees are added with the completions of the frees") {
  const auto log =
      read_log(one_segment({{TorchAction::alloc, kLogBase + 2048, 200, 7, 1},
                            {TorchAction::free_completed, kLogBase + 2048, 200, 7, 2}}));
  CHECK(kinds(log) == Kinds{{EventKind::allocate, 1},
                            {EventKind::free_requested, 1},
                            {EventKind::free_completed, 1}});
}

TEST_CASE("a block that no segment holds is in the log, marked, with a warning") {
  const auto log = read_log(one_segment({{TorchAction::alloc, 4096, 100, 7, 1},
                                         {TorchAction::free_requested, 8192, 50, 7, 2},
                                         {TorchAction::free_completed, 8192, 50, 7, 3}}));
  REQUIRE(log.warnings.size() == 1);
  CHECK(log.warnings[0] ==
        "a block that the trace uses is in no segment (2 times, first device_traces[0][2], address "
        "0x2000)");
  REQUIRE(log.blocks.size() == 3);
  CHECK(log.blocks[0].placed);
  CHECK_FALSE(log.blocks[1].placed);
  CHECK(log.blocks[1].live_at_start);
  CHECK_FALSE(log.blocks[2].placed);
}

TEST_CASE("events of a gap in the recording are repaired with a warning") {
  // The second allocation shows that the block was freed while nothing was recorded.
  const auto twice =
      read_log(one_segment({{TorchAction::alloc, kLogBase + 2048, 200, 7, 1},
                            {TorchAction::alloc, kLogBase + 2048, 700, 7, 2},
                            {TorchAction::free_requested, kLogBase + 2048, 700, 7, 3},
                            {TorchAction::free_completed, kLogBase + 2048, 700, 7, 4}}));
  CHECK(kinds(twice) == Kinds{{EventKind::allocate, 1},
                              {EventKind::free_requested, 1},
                              {EventKind::free_completed, 1},
                              {EventKind::allocate, 2},
                              {EventKind::free_requested, 2},
                              {EventKind::free_completed, 2}});
  CHECK_FALSE(twice.warnings.empty());

  const auto freed_again =
      read_log(one_segment({{TorchAction::alloc, kLogBase + 2048, 200, 7, 1},
                            {TorchAction::free_requested, kLogBase + 2048, 200, 7, 2},
                            {TorchAction::free_requested, kLogBase + 2048, 200, 7, 3},
                            {TorchAction::free_completed, kLogBase + 2048, 200, 7, 4},
                            {TorchAction::free_completed, kLogBase + 2048, 200, 7, 5}}));
  CHECK_FALSE(freed_again.warnings.empty());
}

TEST_CASE("devices are interleaved by time and keep their own addresses") {
  TorchSnapshot snapshot =
      one_segment({{TorchAction::alloc, kLogBase + 2048, 200, 7, 10},
                   {TorchAction::free_requested, kLogBase + 2048, 200, 7, 30},
                   {TorchAction::free_completed, kLogBase + 2048, 200, 7, 31}});
  TorchSegment other = snapshot.segments[0];
  other.device = 1;
  snapshot.segments.push_back(other);
  snapshot.traces.push_back({{TorchAction::free_requested, kLogBase + 2048, 300, 7, 20},
                             {TorchAction::free_completed, kLogBase + 2048, 300, 7, 25}});
  const auto log = read_log(snapshot);
  CHECK(log.warnings.empty());
  std::vector<std::uint32_t> devices;
  for (const LogEvent& event : log.events) devices.push_back(event.device);
  CHECK(devices == std::vector<std::uint32_t>{0, 1, 1, 0, 0});
  CHECK(lifetimes(log, 0).size() == 2);
  CHECK(lifetimes(log, 1).size() == 2);
  CHECK(log.initial.size() == 2);
}

TEST_CASE("in any log, each block is allocated, freed and completed at most once, in order") {
  CHECK(rc::check([] {
    const auto events = *rc::gen::container<std::vector<TorchEvent>>(
        rc::gen::map(rc::gen::tuple(rc::gen::inRange(0, 9), rc::gen::inRange<std::uint64_t>(0, 40),
                                    rc::gen::inRange<std::uint64_t>(1, 5000)),
                     [](const auto& t) {
                       const auto [action, place, bytes] = t;
                       const bool segment = action >= 3 && action <= 6;
                       return TorchEvent{static_cast<TorchAction>(action),
                                         kLogBase + place * (segment ? kSegment / 4 : 512),
                                         segment ? kSegment / 4 : bytes, 7, 0};
                     }));
    const auto log = read_log(one_segment(events));
    std::vector<int> stage(log.blocks.size(), 0);
    for (std::size_t i = 0; i < log.blocks.size(); ++i)
      stage[i] = log.blocks[i].live_at_start ? 1 : 0;
    for (const LogEvent& event : log.events) {
      if (event.block == LogEvent::kNoBlock) continue;
      int& now = stage[event.block];
      if (event.kind == EventKind::allocate) RC_ASSERT(now == 0);
      if (event.kind == EventKind::free_requested) RC_ASSERT(now == 1);
      // A free that is pending at the start was requested before the trace.
      if (event.kind == EventKind::free_completed) {
        RC_ASSERT(now == 2 || (now == 1 && log.blocks[event.block].live_at_start));
      }
      now = event.kind == EventKind::allocate ? 1 : event.kind == EventKind::free_requested ? 2 : 3;
    }
    for (const TorchSegment& segment : log.initial[0].segments) {
      std::uint64_t at = segment.address;
      for (const TorchBlock& block : segment.blocks) {
        RC_ASSERT(block.address == at);
        RC_ASSERT(block.bytes > 0U);
        at += block.bytes;
      }
      RC_ASSERT(at == segment.address + segment.bytes);
    }
  }));
}
