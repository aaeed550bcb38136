#include "millrace/observe/ladder.hpp"
#include "test/observe/trace_builder.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using test::TraceBuilder;

const StreamId kLadderMain = TraceBuilder::stream(1);
const StreamId kLadderCopy = TraceBuilder::stream(2);

std::size_t heaviest_before_last(const AllocationTrace& trace, ReuseRule rule) {
  const TracePosition last = trace.blocks().back().allocated;
  return attribute(trace, {.window = {0, last - 1}, .rule = rule}).ordered;
}

TEST_CASE("an empty trace costs nothing") {
  const Ladder ladder = attribute(AllocationTrace{});
  CHECK(ladder.requested == 0);
  CHECK(ladder.reserved == 0);
  CHECK(ladder.heaviest.empty());
}

TEST_CASE("rounding costs the bytes between the requested and the allocated sizes") {
  TraceBuilder program;
  program.acquire(0, 2048);
  program.allocate(kLadderMain, {.address = 0, .bytes = 512, .requested = 500, .tag = "lengths"});
  program.allocate(kLadderMain,
                   {.address = 512, .bytes = 1024, .requested = 1000, .tag = "values"});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.requested == 1500);
  CHECK(ladder.rounded == 1536);
  CHECK(ladder.rounding() == 36);
  CHECK(ladder.ordered == 1536);
  CHECK(ladder.packed == 1536);
  CHECK(ladder.reserved == 2048);
  CHECK(ladder.policy() == 512);
  REQUIRE(ladder.at_peak.size() == 2);
  CHECK(ladder.at_peak[0].tag == "values");
  CHECK(ladder.at_peak[0].bytes - ladder.at_peak[0].requested == 24);
}

TEST_CASE("a block that another stream may not reuse yet costs its bytes once more") {
  TraceBuilder program;
  program.acquire(0, 300);
  const auto batch = program.allocate(kLadderCopy, {.address = 0, .bytes = 100, .tag = "batch"});
  program.free(batch, {{kLadderCopy, 1}});
  program.allocate(kLadderMain, {.address = 100, .bytes = 200, .tag = "activations"});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.rounded == 200);
  CHECK(ladder.ordered == 300);
  CHECK(ladder.streams() == 100);
  CHECK(ladder.packed == 300);
  CHECK(ladder.reserved == 300);
  REQUIRE(ladder.heaviest.size() == 2);
  CHECK(ladder.heaviest[0].tag == "activations");
  CHECK_FALSE(ladder.heaviest[0].waits_for.valid());
  CHECK(ladder.heaviest[1].tag == "batch");
  CHECK(ladder.heaviest[1].stream == kLadderCopy);
  CHECK(ladder.heaviest[1].waits_for == kLadderCopy);
  CHECK(ladder.heaviest[1].bytes == 100);
}

TEST_CASE("an ordering edge or a completion removes the cost of streams") {
  const bool by_completion = GENERATE(false, true);
  TraceBuilder program;
  program.acquire(0, 200);
  const auto batch = program.allocate(kLadderCopy, {.address = 0, .bytes = 100});
  program.free(batch, {{kLadderCopy, 1}});
  if (by_completion) {
    program.finish({kLadderCopy, 1});
  } else {
    program.order(kLadderMain, {kLadderCopy, 1});
  }
  program.allocate(kLadderMain, {.address = 0, .bytes = 200});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.ordered == 200);
  CHECK(ladder.reserved == 200);
}

TEST_CASE("a marker that was recorded before the free orders no stream after the block") {
  TraceBuilder program;
  program.acquire(0, 200);
  const auto batch = program.allocate(kLadderCopy, {.address = 0, .bytes = 100});
  program.free(batch, {{kLadderCopy, 2}});
  program.order(kLadderMain, {kLadderCopy, 1});
  program.allocate(kLadderMain, {.address = 100, .bytes = 100});
  CHECK(attribute(program.trace).ordered == 200);
}

TEST_CASE("a third stream is not ordered after a block because a second one is") {
  const StreamId third = TraceBuilder::stream(3);
  TraceBuilder program;
  program.acquire(0, 300);
  program.free(program.allocate(kLadderCopy, {.address = 0, .bytes = 100}), {{kLadderCopy, 1}});
  program.order(kLadderMain, {kLadderCopy, 1});
  program.free(program.allocate(kLadderMain, {.address = 0, .bytes = 100}), {{kLadderMain, 1}});
  program.allocate(third, {.address = 100, .bytes = 100});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.rounded == 100);
  CHECK(ladder.ordered == 200);  // one of the first two blocks, and the third
}

TEST_CASE("a hole that is too small costs policy if an offline layout has no such hole") {
  TraceBuilder program;
  program.acquire(0, 500);
  const auto a = program.allocate(kLadderMain, {.address = 0, .bytes = 100, .tag = "a"});
  const auto b = program.allocate(kLadderMain, {.address = 100, .bytes = 100, .tag = "b"});
  const auto c = program.allocate(kLadderMain, {.address = 200, .bytes = 100, .tag = "c"});
  program.free(a, {{kLadderMain, 1}});
  program.free(c, {{kLadderMain, 1}});
  program.allocate(kLadderMain, {.address = 300, .bytes = 200, .tag = "d"});
  program.free(b, {{kLadderMain, 1}});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.rounded == 300);
  CHECK(ladder.ordered == 300);
  CHECK(ladder.packed == 300);  // d fits where a and c are neighbors
  CHECK(ladder.reserved == 500);
  CHECK(ladder.policy() == 200);
}

TEST_CASE("packing costs what no layout of contiguous blocks can avoid") {
  // Nine blocks, with at most 500 bytes live at once. A trial of all layouts shows that they need a
  // range of 600 bytes.
  struct Lifetime {
    int begin, end;
    std::size_t bytes;
  };
  const std::vector<Lifetime> blocks{{0, 1, 300}, {0, 3, 100}, {0, 4, 100},
                                     {1, 2, 200}, {1, 4, 100}, {2, 9, 100},
                                     {3, 6, 200}, {5, 7, 200}, {8, 9, 300}};
  TraceBuilder program;
  program.acquire(0, 1600);
  std::vector<std::uint64_t> ids(blocks.size());
  std::uintptr_t address = 0;
  for (int now = 0; now < 10; ++now) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].end == now) program.free(ids[i], {{kLadderMain, 1}});
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (blocks[i].begin != now) continue;
      ids[i] = program.allocate(kLadderMain, {.address = address, .bytes = blocks[i].bytes});
      address += blocks[i].bytes;
    }
  }

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.rounded == 500);
  CHECK(ladder.ordered == 500);
  CHECK(ladder.packed == 600);
  CHECK(ladder.packing() == 100);
  CHECK(ladder.policy() == 1000);
}

TEST_CASE("memory that the host writes is free only once its uses are complete") {
  TraceBuilder program;
  program.acquire(0, 200);
  program.free(program.allocate(kLadderMain, {.address = 0, .bytes = 100}), {{kLadderMain, 1}});
  program.free(program.allocate(kLadderMain, {.address = 100, .bytes = 100}), {{kLadderMain, 2}});
  program.finish({kLadderMain, 2});
  program.allocate(kLadderMain, {.address = 0, .bytes = 200});

  CHECK(attribute(program.trace).ordered == 200);
  CHECK(heaviest_before_last(program.trace, ReuseRule::enqueued_work) == 100);
  CHECK(heaviest_before_last(program.trace, ReuseRule::host_time) == 200);
}

TEST_CASE("a window counts blocks that are live or not yet reusable at its beginning") {
  TraceBuilder program;
  program.acquire(0, 900);
  program.free(program.allocate(kLadderMain, {.address = 0, .bytes = 500}), {{kLadderMain, 1}});
  const auto weights = program.allocate(kLadderMain, {.address = 0, .bytes = 100});
  program.free(program.allocate(kLadderCopy, {.address = 500, .bytes = 200}), {{kLadderCopy, 1}});
  program.free(program.allocate(kLadderMain, {.address = 100, .bytes = 50}), {{kLadderMain, 2}});
  program.trace.begin_window("steady");
  program.allocate(kLadderMain, {.address = 200, .bytes = 30});
  program.trace.begin_window("end");
  program.allocate(kLadderMain, {.address = 300, .bytes = 200});
  program.free(weights, {{kLadderMain, 3}});

  const Ladder steady = attribute(program.trace, {.window = program.trace.window("steady")});
  CHECK(steady.requested == 130);
  CHECK(steady.rounded == 130);
  CHECK(steady.ordered == 330);  // plus copy's block, which main may not reuse yet
  CHECK(steady.reserved == 900);
  const Ladder end = attribute(program.trace, {.window = program.trace.window("end")});
  CHECK(end.rounded == 330);
  CHECK(end.ordered == 530);
}

TEST_CASE("the reserved level is the most that was held at once, not a sum over time") {
  TraceBuilder program;
  program.acquire(0, 100);
  program.free(program.allocate(kLadderMain, {.address = 0, .bytes = 100}), {{kLadderMain, 1}});
  program.finish({kLadderMain, 1});
  program.release(0, 100);
  program.acquire(1000, 100);
  program.allocate(kLadderMain, {.address = 1000, .bytes = 100});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.reserved == 100);
  CHECK(ladder.packed == 100);
}

TEST_CASE("a block may span two growths of a range, and counts once in each") {
  TraceBuilder program;
  program.acquire(0, 1024);
  program.free(program.allocate(kLadderMain, {.address = 0, .bytes = 1024}), {{kLadderMain, 1}});
  program.order(kLadderMain, {kLadderMain, 1});
  program.acquire(1024, 512);
  program.allocate(kLadderMain, {.address = 512, .bytes = 1024});

  const Ladder ladder = attribute(program.trace);
  CHECK(ladder.reserved == 1536);
  CHECK(ladder.packed <= 1536);
  program.release(256, 256);  // no block uses that part; the rest stays
  program.acquire(2048, 256);
  CHECK(attribute(program.trace).reserved == 1536);
}

TEST_CASE("a segment at the addresses of smaller ones holds the blocks allocated there") {
  TraceBuilder program;
  program.acquire(0, 100);
  program.acquire(100, 100);
  program.release(0, 100);
  program.release(100, 100);
  program.acquire(0, 300);
  program.allocate(kLadderMain, {.address = 150, .bytes = 100});
  CHECK(attribute(program.trace).reserved == 300);
}

TEST_CASE("bytes that two streams could use go to the stream that can use no others") {
  const StreamId third = TraceBuilder::stream(3);
  TraceBuilder program;
  program.acquire(0, 400);
  const auto for_main = program.allocate(kLadderMain, {.address = 0, .bytes = 100});
  const auto for_both = program.allocate(third, {.address = 100, .bytes = 100});
  program.free(for_main, {{kLadderMain, 1}});
  program.free(for_both, {{third, 1}});
  program.order(kLadderMain, {third, 1});
  program.order(kLadderCopy, {third, 1});
  program.allocate(kLadderMain, {.address = 200, .bytes = 100});
  program.allocate(kLadderCopy, {.address = 300, .bytes = 100});
  CHECK(attribute(program.trace).ordered == 200);
}

TEST_CASE("idle bytes are counted under their last user") {
  TraceBuilder program;
  program.acquire(0, 1000);
  program.free(program.allocate(kLadderCopy, {.address = 0, .bytes = 300, .tag = "old"}),
               {{kLadderCopy, 1}});
  const auto batch = program.allocate(kLadderCopy, {.address = 100, .bytes = 300, .tag = "batch"});
  program.free(batch, {{kLadderCopy, 2}});
  program.allocate(kLadderMain, {.address = 600, .bytes = 400, .tag = "activations"});

  const Ladder ladder = attribute(program.trace);
  REQUIRE(ladder.idle.size() == 2);
  CHECK(ladder.idle[0].tag == "batch");
  CHECK(ladder.idle[0].bytes == 300);
  CHECK(ladder.idle[1].tag == "old");
  CHECK(ladder.idle[1].bytes == 100);
}

TEST_CASE("if reuse proves order, reuse between streams is not counted as a conflict") {
  TraceBuilder program;
  program.free(program.allocate(kLadderCopy, {.address = 0, .bytes = 100}), {{kLadderCopy, 1}});
  program.allocate(kLadderMain, {.address = 0, .bytes = 100});
  REQUIRE(find_illegal_reuse(program.trace).size() == 1);

  const Ladder ladder =
      attribute(program.trace, {.reuse_proves_order = true, .reserved = std::size_t{128}});
  CHECK(ladder.ordered == 100);
  CHECK(ladder.packed == 100);
  CHECK(ladder.reserved == 128);
}

TEST_CASE("memory reused before its last use is done is found, with both blocks") {
  TraceBuilder program;
  const auto a = program.allocate(kLadderMain, {.address = 0, .bytes = 100});
  program.free(a, {{kLadderMain, 1}, {kLadderCopy, 3}});
  program.order(kLadderCopy, {kLadderMain, 1});
  program.allocate(kLadderCopy,
                   {.address = 50, .bytes = 20});  // legal: copy is ordered after main's use
  program.order(kLadderMain, {kLadderCopy, 2});
  program.allocate(kLadderMain, {.address = 90, .bytes = 30});  // copy's use may still run

  const std::vector<BlockPair> found = find_illegal_reuse(program.trace);
  REQUIRE(found.size() == 1);
  CHECK(found[0].earlier == 0);
  CHECK(found[0].later == 2);
}

TEST_CASE("early reuse is found if the pages have another address now") {
  TraceBuilder program;
  const auto a = program.allocate(kLadderCopy, {.address = 100, .bytes = 100});
  program.free(a, {{kLadderCopy, 1}});
  program.allocate(kLadderCopy, {.address = 300, .bytes = 50});
  program.move(1000, 150, 50);
  program.allocate(kLadderMain, {.address = 150, .bytes = 50});   // other memory
  program.allocate(kLadderMain, {.address = 1000, .bytes = 50});  // copy may still use it
  const std::vector<BlockPair> found = find_illegal_reuse(program.trace);
  REQUIRE(found.size() == 1);
  CHECK(found[0].earlier == 0);
  CHECK(found[0].later == 3);
}

}  // namespace
}  // namespace millrace
