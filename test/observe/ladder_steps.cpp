#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/conflict_graph.hpp"
#include "millrace/observe/ordering_history.hpp"
#include "observe/byte_flow.hpp"
#include "observe/early_lanes.hpp"
#include "observe/packing/conflict_fit.hpp"
#include "observe/reuse_check.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace {
namespace {

/// A program in which each stream replaces its blocks at the same addresses in turn. No work is
/// known to be complete. Sometimes a stream waits for another one.
class Program {
 public:
  struct Options {
    std::size_t streams = 1;
    std::size_t kept = 20;       ///< live blocks per stream
    std::size_t wait_every = 0;  ///< number of allocations from wait to wait; 0: no waits
  };

  Program(std::size_t allocations, const Options& options)
      : options_(options), random_(test::seed()), streams_(options.streams) {
    for (std::size_t i = 0; i < allocations; ++i) {
      Stream& stream = streams_[i % options.streams];
      if (options.wait_every > 0 && i % options.wait_every == 0) wait(stream);
      allocate(i, stream);
    }
  }

  AllocationTrace trace;

 private:
  struct Live {
    std::uint64_t id;
    std::uintptr_t address;
    std::size_t bytes;
  };
  struct Stream {
    Marker next = 1;
    Frontier frontier;
    std::vector<Live> live;
    std::size_t turn = 0;
  };

  [[nodiscard]] StreamId id_of(const Stream& stream) const {
    return {static_cast<std::uint32_t>(&stream - streams_.data()), 1};
  }

  void wait(Stream& stream) {
    const Stream& other = streams_[random_() % streams_.size()];
    if (&other == &stream) return;
    stream.frontier.join(other.frontier);
    stream.frontier.advance({id_of(other), other.next - 1});
  }

  void allocate(std::uint64_t id, Stream& stream) {
    const StreamId self = id_of(stream);
    const std::size_t place = stream.turn++ % options_.kept;
    if (stream.live.size() == options_.kept) {
      const Live& old = stream.live[place];
      const std::vector<Point> points{{self, stream.next++}};
      trace.freed({old.id, reinterpret_cast<void*>(old.address), old.bytes, points});
    } else {
      stream.live.emplace_back();
    }
    constexpr std::size_t largest = 1 << 16;
    stream.live[place] = {id, (self.slot * options_.kept + place + 1) * largest,
                          1 + random_() % largest};
    const Live& block = stream.live[place];
    trace.allocated({block.id,
                     reinterpret_cast<void*>(block.address),
                     block.bytes,
                     block.bytes,
                     self,
                     self,
                     "",
                     stream.frontier,
                     {}});
  }

  Options options_;
  std::mt19937_64 random_;
  std::vector<Stream> streams_;
};

/// @param steps_of  returns the steps for a given number of allocations
template <typename StepsOf>
void check_nearly_linear(StepsOf steps_of) {
  const std::uint64_t few = steps_of(2'000);
  const std::uint64_t many = steps_of(20'000);
  INFO(few << " steps, then " << many);
  CHECK(few > 0);
  CHECK(many <= 20 * few);
}

}  // namespace

TEST_CASE("ten times the blocks take about ten times the steps of the flow of bytes") {
  for (const std::size_t streams : {1U, 2U, 3U}) {
    for (const std::size_t wait_every : {0U, 5U, 50U}) {
      INFO(streams << " streams, a wait every " << wait_every << " allocations");
      check_nearly_linear([&](std::size_t allocations) {
        const Program program{allocations, {.streams = streams, .wait_every = wait_every}};
        const ConflictGraph graph{program.trace, {}};
        return ByteFlow{graph}.steps();
      });
    }
  }
}

TEST_CASE("the flow of bytes stops soon after its steps are spent") {
  const Program program{20'000, {.streams = 8, .wait_every = 50}};
  const ConflictGraph graph{program.trace, {}};
  const std::uint64_t unlimited = ByteFlow{graph}.steps();
  const std::uint64_t limited = ByteFlow{graph, 100'000}.steps();
  CHECK(unlimited > 1'000'000);
  CHECK(limited >= 100'000);
  CHECK(limited < 300'000);
}

TEST_CASE("ten times the streams take about ten times the search for early releases") {
  check_nearly_linear([](std::size_t allocations) {
    const Program program{allocations, {.streams = allocations / 2, .kept = 1}};
    const ConflictGraph graph{program.trace, {}};
    EarlyLanes early{program.trace, graph};
    std::uint64_t lanes = 0;
    for (ConflictGraph::Node node = 0; node < graph.size(); ++node) {
      lanes += early.of(graph.block(node)).size();
    }
    return lanes;
  });
}

TEST_CASE("ten times the blocks take about ten times the steps of the check of reuse") {
  for (const std::size_t streams : {1U, 3U}) {
    check_nearly_linear([&](std::size_t allocations) {
      const Program program{allocations, {.streams = streams, .wait_every = 7}};
      const ReuseCheck check = check_reuse(ConflictGraph{program.trace, {}});
      CHECK_FALSE(check.illegal);
      return check.steps;
    });
  }
}

TEST_CASE("a packing of conflicts stops soon after its steps are spent") {
  const Program program{4'000, {.streams = 3, .kept = 500}};
  const ConflictGraph graph{program.trace, {}};
  packing::Steps steps{1'000'000'000};
  packing::ConflictFit fit{graph};
  std::uint64_t most = 0;
  for (ConflictGraph::Node node = 0; node < graph.size(); ++node) {
    const std::uint64_t before = steps.left();
    static_cast<void>(fit.put(node, steps));
    most = std::max(most, before - steps.left());
  }
  CHECK(steps.left() < 1'000'000'000);
  CHECK(most <= 64 * std::uint64_t{graph.size()});
}

}  // namespace millrace
