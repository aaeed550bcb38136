// What-if of small programs: the changes that a strategy makes, and their costs.

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "observe/replay/known_completions.hpp"
#include "observe/replay/strategy_log.hpp"
#include "test/observe/what_if_script.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

using namespace trace;

/// Main holds 64 MiB. The copy stream loads two batches of 64 MiB. Between them, main frees the
/// first batch, and allocates and frees another 64 MiB.
AllocationLog two_batches(bool has_times, const std::function<void(Script&)>& before_end) {
  Script script;
  TraceWriter& writer = *script.writer;
  if (has_times) writer.program("two batches");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  const StackTable::Id load = script.site("load");
  std::uint64_t address = 1 << 30;
  const auto allocate = [&](std::uint32_t stream, StackTable::Id site) {
    return writer.allocated(
        {.stream = stream, .address = address += 64 * MiB, .bytes = 64 * MiB, .stack = site});
  };
  const std::uint64_t weights = allocate(main, StackTable::kNone);
  script.now = 100;
  const std::uint64_t first = allocate(copy, load);
  writer.marked(copy, 1);
  writer.waited(main, copy, 1);
  script.now = 200;
  writer.freed(first, main);
  script.now = 300;
  const std::uint64_t activations = allocate(main, StackTable::kNone);
  writer.freed(activations, main);
  script.now = 400;
  const std::uint64_t second = allocate(copy, load);
  writer.freed(second, copy);
  before_end(script);
  writer.freed(weights, main);
  return script.log();
}

std::optional<std::int64_t> delay_in_place(bool has_times,
                                           const std::function<void(Script&)>& before_end) {
  const WhatIf found = what_if(two_batches(has_times, before_end), 0);
  const WhatIfMove* const move = find(found, WhatIfStrategy::in_place);
  REQUIRE(move != nullptr);
  CHECK(move->cost.waits == 2);
  return move->cost.most_delay_us;
}

struct Side {
  std::string name;
  std::size_t sites = 1;
  std::size_t bytes = 0;  // of the block of a site
};

/// Main frees 256 MiB. Then each side stream holds one block of each of its sites at once.
AllocationLog with_sides(const std::vector<Side>& sides) {
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("side streams");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main");
  std::uint64_t address = std::uint64_t{1} << 30;
  const auto allocate = [&](std::uint32_t stream, std::size_t bytes, StackTable::Id site) {
    address += bytes;
    return writer.allocated(
        {.stream = stream, .address = address - bytes, .bytes = bytes, .stack = site});
  };
  writer.freed(allocate(main, 256 * MiB, StackTable::kNone), main);
  for (const Side& side : sides) {
    const std::uint32_t stream = script.stream(side.name);
    std::vector<std::uint64_t> live;
    for (std::size_t i = 0; i < side.sites; ++i) {
      const StackTable::Id site = script.site(side.name + "_" + std::to_string(i));
      live.push_back(allocate(stream, side.bytes, site));
    }
    for (const std::uint64_t block : live) writer.freed(block, stream);
  }
  return script.log();
}

/// Returns the log as the strategy changes it for stream 1, `copy`.
AllocationLog changed_by(WhatIfStrategy strategy, const AllocationLog& log, WhatIfCost* cost) {
  const KnownCompletions known{log, 0};
  const StrategyLog changed{log, known, {.stream = 1, .to = 0, .stack = {}}, strategy};
  if (cost != nullptr) *cost = changed.cost();
  return changed.log();
}

std::size_t made_for_copy(const AllocationLog& log) {
  std::size_t made = 0;
  for (const LogEvent& event : log.events)
    made += event.kind == EventKind::allocate && log.blocks[event.block].stream == 1 ? 1 : 0;
  return made;
}

}  // namespace

TEST_CASE("a wait delays at most until the trace shows that its target is complete") {
  // The strategy waits before the allocations at 100 and 400. Stream 0 is main.
  const auto known_at = [](std::int64_t time) {
    return [time](Script& script) {
      script.now = time;
      script.writer->passed_stream(0);
    };
  };
  CHECK(delay_in_place(true, known_at(1000)) == 900);
  CHECK(delay_in_place(true, known_at(400)) == 300);
  CHECK(delay_in_place(true, [](Script& script) {
          script.now = 500;
          script.writer->passed_device(0);
        }) == 400);
  CHECK(delay_in_place(true, [](Script&) {}) == std::nullopt);
  CHECK(delay_in_place(false, known_at(1000)) == std::nullopt);  // without times: positions
}

TEST_CASE("a side stream of many sites does not hide the next one") {
  const WhatIf found = what_if(with_sides({{"A", 6, 20 * MiB}, {"B", 6, 10 * MiB}}), 0);
  for (const std::string stream : {"A", "B"}) {
    CAPTURE(stream);
    std::set<std::string> sites;
    for (const WhatIfMove& move : found.moves) {
      if (move.stream == stream && move.strategy == WhatIfStrategy::in_place)
        sites.insert(move.site);
    }
    CHECK(sites.size() == 7);  // "" is the stream as a whole
  }
}

TEST_CASE("among many side streams, those that allocate most are tried") {
  std::vector<Side> sides;
  for (int i = 0; i < 8; ++i) sides.push_back({"small " + std::to_string(i), 1, 20 * MiB});
  sides.push_back({"large", 1, 40 * MiB});
  std::set<std::string> streams;
  for (const WhatIfMove& move : what_if(with_sides(sides), 0).moves) streams.insert(move.stream);
  CHECK(streams == std::set<std::string>{"all side streams", "large", "small 0", "small 1",
                                         "small 2", "small 3", "small 4"});
}

TEST_CASE("as many buffers are kept as were in use or not known to be complete") {
  // The second batch may get the first one's buffer only if main's use of it is complete.
  const WhatIf unknown = what_if(two_batches(true, [](Script&) {}), 0);
  CHECK(find(unknown, WhatIfStrategy::free_list) == nullptr);  // two buffers save nothing
  const WhatIfMove* const ring = find(unknown, WhatIfStrategy::ring);
  REQUIRE(ring != nullptr);
  CHECK(ring->cost.waits == 1);
  CHECK(ring->cost.most_delay_us == std::nullopt);
  CHECK(*ring->reserved.torch < *unknown.reserved.torch + 64 * MiB);
}

TEST_CASE("a kept buffer is used again when its last use is known to be complete") {
  for (const bool is_complete : {false, true}) {
    Script script;
    TraceWriter& writer = *script.writer;
    writer.program("one after the other");
    writer.device(0, 0, "gpu");
    const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
    static_cast<void>(writer.allocated({.stream = main, .address = 1 << 20, .bytes = 4096}));
    std::uint64_t address = 1 << 30;
    for (int i = 0; i < 5; ++i) {
      const auto batch =
          writer.allocated({.stream = copy, .address = address += MiB, .bytes = 1000});
      writer.freed(batch, main);
      if (is_complete) writer.completed(batch);
    }
    WhatIfCost cost;
    const AllocationLog log = script.log();
    const AllocationLog kept = changed_by(WhatIfStrategy::free_list, log, &cost);
    CHECK(made_for_copy(kept) == (is_complete ? 1 : 5));
    CHECK(cost.waits == 0);
    const AllocationLog ring = changed_by(WhatIfStrategy::ring, log, &cost);
    CHECK(made_for_copy(ring) == 1);
    CHECK(cost.waits == (is_complete ? 0 : 4));
    CHECK(ring.blocks.back().bytes == 1300);
  }
}

TEST_CASE("a request gets the smallest kept buffer that is large enough") {
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("sizes");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  const StackTable::Id load = script.site("load");
  std::uint64_t address = 1 << 30;
  const auto allocate = [&](std::uint32_t stream, std::uint64_t bytes) {
    return writer.allocated(
        {.stream = stream, .address = address += MiB, .bytes = bytes, .stack = load});
  };
  static_cast<void>(allocate(main, 4096));
  std::vector<std::uint64_t> live{allocate(copy, 2000), allocate(copy, 1000)};
  for (const std::uint64_t block : std::exchange(live, {})) writer.freed(block, copy);
  live = {allocate(copy, 900), allocate(copy, 1500)};
  for (const std::uint64_t block : live) writer.freed(block, copy);
  static_cast<void>(allocate(copy, 5000));
  const AllocationLog log = script.log();
  CHECK(made_for_copy(changed_by(WhatIfStrategy::free_list, log, nullptr)) == 3);
  // The largest buffer of a ring grows.
  const AllocationLog ring = changed_by(WhatIfStrategy::ring, log, nullptr);
  CHECK(made_for_copy(ring) == 3);
  CHECK(ring.blocks.back().bytes == 6500);
  std::vector<std::uint64_t> freed;
  for (const LogEvent& event : ring.events) {
    if (event.kind == EventKind::free_requested) freed.push_back(ring.blocks[event.block].bytes);
  }
  CHECK(freed == std::vector<std::uint64_t>{2600});
}

TEST_CASE("a kept buffer serves the stream of its last use, and others once that is complete") {
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("two side streams");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main");
  const std::uint32_t copy = script.stream("copy"), comm = script.stream("comm");
  std::uint64_t address = 1 << 30;
  const auto allocate = [&](std::uint32_t stream) {
    return writer.allocated({.stream = stream, .address = address += MiB, .bytes = 1000});
  };
  static_cast<void>(allocate(main));
  const std::uint64_t first = allocate(copy);
  writer.freed(first, copy);
  const std::uint64_t second = allocate(comm);  // cannot get copy's buffer
  writer.used(second, copy);
  writer.freed(second, comm);
  const std::uint64_t third = allocate(copy);   // gets the buffer of `first`
  const std::uint64_t fourth = allocate(comm);  // copy may still use `second`
  writer.completed(second);
  const std::uint64_t fifth = allocate(copy);  // gets the buffer of `second`
  for (const std::uint64_t block : {third, fifth}) writer.freed(block, copy);
  writer.freed(fourth, comm);
  const AllocationLog log = script.log();
  const KnownCompletions known{log, 0};
  const StrategyLog changed{
      log, known, {.stream = {}, .to = 0, .stack = {}}, WhatIfStrategy::free_list};
  CHECK(changed.changed().size() == 5);
  CHECK(std::ranges::count(changed.log().events, EventKind::allocate, &LogEvent::kind) == 1 + 3);
}

TEST_CASE("the duration of waits that an allocator adds is unknown") {
  WhatIfCost cost;
  const AllocationLog log = two_batches(true, [](Script& script) {
    script.now = 500;
    script.writer->passed_device(0);
  });
  static_cast<void>(changed_by(WhatIfStrategy::precise, log, &cost));
  CHECK_FALSE(cost.waits_are_known);
  CHECK(cost.most_delay_us == std::nullopt);
}

TEST_CASE("memory is handed over and freed where main first waits for the side stream") {
  const AllocationLog log = two_batches(true, [](Script&) {});
  const AllocationLog handed = changed_by(WhatIfStrategy::transfer, log, nullptr);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found;  // block and stream
  for (const LoggedOrder& step : handed.order) {
    if (step.kind == OrderKind::transferred) found.emplace_back(step.block, step.stream);
  }
  // Main never waits for the second batch, which copy frees.
  CHECK(found == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 0}});
  CHECK(handed.events.size() == log.events.size());
  const KnownCompletions known{log, 0};
  const StrategyLog changed{
      log, known, {.stream = 1, .to = 0, .stack = {}}, WhatIfStrategy::transfer};
  CHECK(changed.changed() == std::vector<std::uint32_t>{1});
}

}  // namespace millrace::test
