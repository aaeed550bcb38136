#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/ladder.hpp"
#include "test/observe/model_program.hpp"
#include "test/observe/trace_builder.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using test::model_program;
using test::ModelRun;
using test::ModelStep;
using test::TraceBuilder;

const StreamId kMain = TraceBuilder::stream(1);
const StreamId kCopy = TraceBuilder::stream(2);

TEST_CASE("a trace keeps allocations, uses and frees in order") {
  TraceBuilder program;
  program.acquire(0, 4096);
  const auto id = program.allocate(
      kMain, kCopy, {.address = 512, .bytes = 1024, .requested = 1000, .tag = "values"});
  program.trace.use_recorded(id, kCopy);
  program.free(id, {{kMain, 3}, {kCopy, 1}});
  program.release(0, 4096);

  REQUIRE(program.trace.blocks().size() == 1);
  const TracedBlock& block = program.trace.blocks()[0];
  CHECK(block.id == id);
  CHECK(block.address == 512);
  CHECK(block.requested == 1000);
  CHECK(block.bytes == 1024);
  CHECK(block.owner == kMain);
  CHECK(block.user == kCopy);
  CHECK(program.trace.tag_name(block.tag) == "values");
  CHECK(block.allocated == 2);
  CHECK(block.freed == 4);
  CHECK(block.free_points == std::vector<Point>{{kMain, 3}, {kCopy, 1}});
  REQUIRE(program.trace.uses().size() == 1);
  CHECK(program.trace.uses()[0].stream == kCopy);
  REQUIRE(program.trace.segments().size() == 1);
  CHECK(program.trace.segments()[0].acquired == 1);
  CHECK(program.trace.segments()[0].released == 5);
}

TEST_CASE("a window lasts from its mark to the next, and a repeated name means the latest one") {
  AllocationTrace trace;
  const TracePosition first = trace.begin_window("step");
  const TracePosition second = trace.begin_window("step");
  CHECK(trace.window("step").begin == second);
  CHECK(trace.window("step").end == kNever);
  const TracePosition end = trace.begin_window("end");
  CHECK(trace.window("step").end == end);
  CHECK(first < second);
  CHECK_THROWS_AS(trace.window("warm-up"), std::out_of_range);
}

TEST_CASE("frees of blocks from before the trace began are ignored") {
  AllocationTrace trace;
  trace.freed({.id = 7, .address = nullptr, .bytes = 512, .points = {}});
  CHECK(trace.blocks().empty());
  CHECK(attribute(trace).reserved == 0);
}

TEST_CASE("discarding removes only blocks that were known to be complete before a window") {
  TraceBuilder program;
  program.free(program.allocate(kMain, {.address = 0, .bytes = 100}), {{kMain, 1}});
  program.finish({kMain, 1});
  program.free(program.allocate(kCopy, {.address = 100, .bytes = 100}), {{kCopy, 1}});
  program.allocate(kMain, {.address = 200, .bytes = 100});
  const TracePosition begin = program.trace.begin_window("steady");
  program.trace.discard_before(begin);

  REQUIRE(program.trace.blocks().size() == 2);
  CHECK(program.trace.blocks()[0].user == kCopy);
  CHECK(program.trace.complete_from() == begin);
  CHECK_NOTHROW(program.trace.window("steady"));
}

TEST_CASE("a window that begins before discarded events is refused") {
  TraceBuilder program;
  program.trace.begin_window("early");
  program.free(program.allocate(kMain, {.address = 0, .bytes = 100}), {});
  program.trace.discard_before(program.trace.begin_window("late"));
  CHECK_THROWS_AS(program.trace.window("early"), std::out_of_range);
}

TEST_CASE("discarding old events does not change the ladder of a later window") {
  REQUIRE(rc::check([] {
    auto program = *model_program();
    const auto rest = *model_program();
    ModelRun whole{program};
    const TracePosition begin = whole.trace.position();
    program.insert(program.end(), rest.begin(), rest.end());
    ModelRun run{program};
    const LadderOptions window{.window = {begin, kNever}};
    const Ladder before = attribute(run.trace, window);
    run.trace.discard_before(begin);
    const Ladder after = attribute(run.trace, window);
    RC_ASSERT(before.requested == after.requested);
    RC_ASSERT(before.rounded == after.rounded);
    RC_ASSERT(before.ordered == after.ordered);
    RC_ASSERT(before.packed == after.packed);
    RC_ASSERT(before.reserved == after.reserved);
  }));
}

TEST_CASE("the ladder of a window is monotone, and no higher than that of the whole trace") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const ModelRun run{program};
    const auto begin = *rc::gen::inRange<TracePosition>(0, run.trace.position() + 1);
    const auto end = *rc::gen::inRange<TracePosition>(begin, run.trace.position() + 1);
    const Ladder part = attribute(run.trace, {.window = {begin, end}});
    RC_ASSERT(part.requested <= part.rounded);
    RC_ASSERT(part.rounded <= part.ordered);
    RC_ASSERT(part.ordered <= part.packed);
    RC_ASSERT(part.packed <= part.reserved);
    const Ladder whole = attribute(run.trace);
    RC_ASSERT(part.requested <= whole.requested);
    RC_ASSERT(part.rounded <= whole.rounded);
    RC_ASSERT(part.ordered <= whole.ordered);
    RC_ASSERT(part.reserved <= whole.reserved);
  }));
}

TEST_CASE("a bounded trace of a long run stays small") {
  AllocationTrace trace{{.keep = 100}};
  const Frontier nothing;
  for (std::uint64_t i = 1; i <= 10'000; ++i) {
    Frontier completed;
    completed.advance({kMain, i - 1});
    trace.allocated(
        {i, reinterpret_cast<void*>(i * 512), 512, 512, kMain, kMain, "", nothing, completed});
    const std::vector<Point> points{{kMain, i}};
    trace.freed({i, reinterpret_cast<void*>(i * 512), 512, points});
  }
  CHECK(trace.blocks().size() >= 100);
  CHECK(trace.blocks().size() <= 210);
  CHECK(trace.blocks().back().id == 10'000);
  CHECK(trace.ordering().size() <= 210);
}

TEST_CASE("a release ends its part of one or several segments, and the rest stays acquired") {
  TraceBuilder program;
  program.acquire(0, 1000);
  program.acquire(1000, 500);
  program.release(600, 600);
  const auto segments = program.trace.segments();
  REQUIRE(segments.size() == 4);
  std::size_t held = 0;
  std::size_t gone = 0;
  for (const TracedSegment& segment : segments) {
    CHECK(segment.acquired == (segment.base < 1000 ? 1 : 2));
    const bool inside = segment.base >= 600 && segment.base + segment.bytes <= 1200;
    CHECK((segment.released == 3) == inside);
    (inside ? gone : held) += segment.bytes;
  }
  CHECK(held == 900);
  CHECK(gone == 600);
}

}  // namespace
}  // namespace millrace
