#include <algorithm>

#include "millrace/observe/bounds.hpp"
#include "millrace/observe/ladder.hpp"
#include "observe/byte_flow.hpp"
#include "test/observe/model_program.hpp"
#include "test/support/catch.hpp"

namespace millrace {
namespace {

using test::model_program;
using test::ModelRun;
using test::ModelStep;
using Node = ConflictGraph::Node;

std::size_t total_bytes(const std::vector<Node>& nodes, const ConflictGraph& graph) {
  std::size_t bytes = 0;
  for (const Node node : nodes) bytes += graph.bytes(node);
  return bytes;
}

/** Returns the weight of the heaviest set of mutual conflicts, by trying all sets. */
std::size_t heaviest_by_trial(const ModelRun& run, std::vector<std::size_t>& chosen,
                              std::size_t next) {
  std::size_t heaviest = 0;
  for (const std::size_t a : chosen) heaviest += run.bytes(a);
  for (std::size_t a = next; a < run.size(); ++a) {
    if (!std::ranges::all_of(chosen, [&](std::size_t b) { return run.conflict(a, b); })) continue;
    chosen.push_back(a);
    heaviest = std::max(heaviest, heaviest_by_trial(run, chosen, a + 1));
    chosen.pop_back();
  }
  return heaviest;
}

TEST_CASE("the conflict graph agrees with the definition for every two blocks") {
  REQUIRE(rc::check([](bool obeys) {
    const auto program = *model_program();
    const auto streams = *rc::gen::element<std::size_t>(1, 3, 30);
    const ModelRun run{program, {.streams = streams, .obeys = obeys}};
    const ConflictGraph graph{run.trace, {}};
    RC_ASSERT(graph.size() == run.size());
    for (Node a = 0; a < graph.size(); ++a) {
      for (Node b = 0; b < graph.size(); ++b) {
        RC_ASSERT(graph.conflict(a, b) == run.conflict(a, b));
      }
    }
  }));
}

TEST_CASE("in memory that the host writes, only completion ends a block") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const ModelRun run{program};
    const ConflictGraph device{run.trace, {}};
    const ConflictGraph host{run.trace, {.rule = ReuseRule::host_time}};
    for (Node b = 0; b < host.size(); ++b) {
      for (Node a = 0; a < b; ++a) {
        if (device.conflict(a, b)) RC_ASSERT(host.conflict(a, b));
        RC_ASSERT(host.conflict(a, b) == (b < device.released_from(a)));
      }
    }
  }));
}

TEST_CASE("illegal reuse is found exactly where it exists") {
  REQUIRE(rc::check([](bool obeys) {
    const auto program = *model_program();
    const ModelRun run{program, {.obeys = obeys}};
    std::vector<std::pair<std::size_t, std::size_t>> expected;
    for (std::size_t b = 0; b < run.size(); ++b) {
      for (std::size_t a = 0; a < b; ++a) {
        if (run.share_memory(a, b) && run.conflict(a, b)) expected.emplace_back(a, b);
      }
    }
    if (obeys) RC_ASSERT(expected.empty());
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (const auto& [a, b] : find_illegal_reuse(run.trace)) found.emplace_back(a, b);
    std::ranges::sort(found, {}, [](const auto& pair) {
      return std::pair{pair.second, pair.first};
    });
    RC_ASSERT(found == expected);
  }));
}

TEST_CASE("the blocks of the heaviest set conflict with one another") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const ModelRun run{program};
    const ConflictGraph graph{run.trace, {}};
    const std::vector<Node> heaviest = heaviest_conflicting_set(graph);
    for (const Node a : heaviest) {
      for (const Node b : heaviest) RC_ASSERT(a == b || run.conflict(a, b));
    }
  }));
}

TEST_CASE("a search for the heaviest set that is cut short finds mutual conflicts") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const auto streams = *rc::gen::inRange<std::size_t>(1, 6);
    const ModelRun run{program, {.streams = streams}};
    const ConflictGraph graph{run.trace, {}};
    const auto steps = *rc::gen::inRange<std::uint64_t>(0, 100);
    const std::vector<Node> found = ByteFlow{graph, steps}.minimum_cut();
    for (const Node a : found) {
      for (const Node b : found) RC_ASSERT(a == b || run.conflict(a, b));
    }
  }));
}

TEST_CASE("no set of mutual conflicts is heavier than the heaviest") {
  const auto small = rc::gen::scale(0.4, model_program());
  REQUIRE(rc::check([&] {
    const auto program = *small;
    const ModelRun run{program};
    const ConflictGraph graph{run.trace, {}};
    std::vector<std::size_t> chosen;
    RC_ASSERT(total_bytes(heaviest_conflicting_set(graph), graph) ==
              heaviest_by_trial(run, chosen, 0));
  }));
}

TEST_CASE("blocks in conflict are never packed over each other") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const auto streams = *rc::gen::element<std::size_t>(1, 2, 3, 30);
    const ModelRun run{program, {.streams = streams}};
    const ConflictGraph graph{run.trace, {}};
    const ConflictPacking packing = pack_conflicts(graph);
    RC_ASSERT(packing.bytes >= total_bytes(heaviest_conflicting_set(graph), graph));
    for (Node a = 0; a < graph.size(); ++a) {
      RC_ASSERT(packing.offsets[a] + graph.bytes(a) <= packing.bytes);
      for (Node b = 0; b < a; ++b) {
        const bool apart = packing.offsets[a] + graph.bytes(a) <= packing.offsets[b] ||
                           packing.offsets[b] + graph.bytes(b) <= packing.offsets[a];
        RC_ASSERT(apart || !run.conflict(a, b));
      }
    }
  }));
}

TEST_CASE("with one stream the heaviest set has the bytes that were live at the peak") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const ModelRun run{program, {.streams = 1}};
    const Ladder ladder = attribute(run.trace);
    RC_ASSERT(ladder.ordered == ladder.rounded);
  }));
}

TEST_CASE("each level of the ladder is at least the one below it") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const ModelRun run{program, {.streams = *rc::gen::inRange<std::size_t>(1, 6)}};
    const Ladder ladder = attribute(run.trace);
    RC_ASSERT(ladder.requested <= ladder.rounded);
    RC_ASSERT(ladder.rounded <= ladder.ordered);
    RC_ASSERT(ladder.ordered <= ladder.packed);
    RC_ASSERT(ladder.packed <= ladder.reserved);
  }));
}

TEST_CASE("the shares of a ladder level add up to the level") {
  REQUIRE(rc::check([] {
    const auto program = *model_program();
    const Ladder ladder = attribute(ModelRun{program}.trace);
    std::size_t live = 0;
    for (const LadderShare& share : ladder.at_peak) live += share.bytes;
    std::size_t conflicting = 0;
    for (const LadderShare& share : ladder.heaviest) conflicting += share.bytes;
    std::size_t idle = 0;
    for (const LadderShare& share : ladder.idle) idle += share.bytes;
    RC_ASSERT(live == ladder.rounded);
    RC_ASSERT(conflicting == ladder.ordered);
    RC_ASSERT(live + idle <= ladder.reserved);
  }));
}

}  // namespace
}  // namespace millrace
