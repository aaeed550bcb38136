#include "memory/caching/joined_lanes.hpp"

#include "test/memory/parts/search_rig.hpp"

namespace millrace::test {
namespace {

constexpr int kManyGrowths = 20;

struct JoinedRig : SearchRig {
  using SearchRig::SearchRig;
  JoinedLanes joined{stock, free_blocks, reuse};
  LeanLimit limit{stock};

  /// Adds segments while too much is reserved, as a program does whose reserved bytes creep up.
  void creep() {
    segment(64 * MiB, main);
    for (int i = 0; i < kManyGrowths; ++i) limit.count_growth();
  }
  /// Lets the device complete all work that was enqueued.
  void complete() {
    ordered.mark(main);
    ordered.mark(copy);
    ordered.synchronize();
  }
  /// Frees a segment in pieces of 2 MiB, for the two streams in turn.
  void free_in_pieces(std::size_t pieces) {
    Block* rest = segment(pieces * 2 * MiB, main);
    for (std::size_t i = 0; i < pieces; ++i) {
      const Stream& stream = i % 2 == 0 ? main : copy;
      Block* const piece = rest;
      rest = i + 1 < pieces ? stock.heap.split(rest, 2 * MiB) : nullptr;
      piece->lane = stream.id();
      put(piece, stream);
    }
  }
};

}  // namespace

TEST_CASE("memory creeps up once segments were added many times while too much was reserved",
          "[parts]") {
  JoinedRig rig;
  rig.segment(16 * MiB, rig.main);  // eight pages: not too much
  for (int i = 0; i < 2 * kManyGrowths; ++i) rig.limit.count_growth();
  rig.segment(18 * MiB, rig.main);
  CHECK_FALSE(rig.limit.creeps());
  for (int i = 1; i < kManyGrowths; ++i) rig.limit.count_growth();
  CHECK_FALSE(rig.limit.creeps());
  rig.limit.count_growth();
  CHECK(rig.limit.creeps());
  rig.live(17 * MiB, rig.main);  // adds a segment of 64 MiB, 98 in total
  CHECK(rig.limit.creeps());
  for (int i = 0; i < 4; ++i) rig.live(17 * MiB, rig.main);  // 162 MiB for 85
  CHECK(rig.limit.creeps());
  for (int i = 0; i < 4; ++i) rig.give(rig.segment(64 * MiB, rig.main), rig.main);
  CHECK(rig.limit.creeps());  // 77 MiB more than 341, twice the excess are 43
  for (int i = 0; i < 5; ++i) rig.give(rig.segment(64 * MiB, rig.main), rig.main);
  CHECK_FALSE(rig.limit.creeps());  // 77 MiB more than 661, twice the excess are 83
}

TEST_CASE("policies that grow at once never creep", "[parts]") {
  for (const Policy& policy : {Policy::torch(), Policy::pinned()}) {
    JoinedRig rig{policy};
    rig.creep();
    CHECK_FALSE(rig.limit.creeps());
  }
}

TEST_CASE("while memory creeps up, a closer fit of another lane is taken", "[parts]") {
  JoinedRig rig;
  rig.free_segment(8 * MiB, rig.main);
  Block* const closer = rig.free_segment(6 * MiB, rig.copy);
  rig.free_segment(8 * MiB, rig.copy);
  rig.free_in_pieces(20);  // so many that the lanes do not join here
  rig.complete();
  const Request request = rig.request(6 * MiB, rig.main);
  CHECK(rig.joined.take_closer(request) == nullptr);
  rig.creep();
  Request small = request;
  small.small = true;
  CHECK(rig.joined.take_closer(small) == nullptr);
  CHECK(rig.joined.take_closer(rig.request(10 * MiB, rig.main)) == nullptr);  // none in the lane
  CHECK(rig.joined.take_closer(rig.request(7 * MiB, rig.main)) == nullptr);   // as close as its own
  CHECK(rig.joined.take_closer(request) == closer);
  CHECK(rig.joined.take_closer(request) == nullptr);
}

TEST_CASE("a closer fit whose last use is not complete is left", "[parts]") {
  JoinedRig rig;
  rig.free_segment(8 * MiB, rig.main);
  rig.creep();
  rig.complete();
  rig.work(rig.copy);
  rig.free_segment(6 * MiB, rig.copy);
  CHECK(rig.joined.take_closer(rig.request(6 * MiB, rig.main)) == nullptr);
}

TEST_CASE("while memory creeps up, neighbors of several lanes merge before memory grows",
          "[parts]") {
  JoinedRig rig;
  rig.free_in_pieces(8);
  rig.complete();
  rig.free_blocks.settle();
  const Request request = rig.request(9 * MiB, rig.copy);
  CHECK(rig.joined.take_joined(request) == nullptr);
  rig.creep();
  Block* const block = rig.joined.take_joined(request);
  REQUIRE(block != nullptr);
  CHECK(block->bytes == 16 * MiB);
  CHECK(block->lane == rig.copy.id());
  rig.free_blocks.put(block);
  rig.stock.heap.check();
  CHECK(rig.joined.take_joined(rig.request(17 * MiB, rig.copy)) == nullptr);
}

TEST_CASE("lanes join once there were as many requests as blocks, or before growth if few",
          "[parts]") {
  const std::size_t pieces = GENERATE(512, 1024, 1026);
  CAPTURE(pieces);
  JoinedRig rig;
  rig.free_in_pieces(pieces);
  rig.complete();
  rig.free_blocks.settle();
  rig.creep();
  REQUIRE(rig.stock.shelves.complete(false).size() == pieces);
  const Request whole = rig.request(pieces * 2 * MiB, rig.main);
  if (pieces > 1024) {
    CHECK(rig.joined.take_joined(whole) == nullptr);
    CHECK(rig.joined.take_closer(whole) == nullptr);
    CHECK(rig.joined.take_joined(whole) == nullptr);
    CHECK(rig.joined.take_closer(whole) == nullptr);
  } else if (pieces == 512) {
    for (std::size_t i = 1; i < pieces; ++i) CHECK(rig.joined.take_closer(whole) == nullptr);
    REQUIRE(rig.stock.shelves.blocks() == pieces);
    CHECK(rig.joined.take_closer(whole) == nullptr);  // it is in the request's own lane now
    CHECK(rig.stock.shelves.blocks() == 1);
  }
  CHECK(rig.joined.take_joined(whole) != nullptr);
}

}  // namespace millrace::test
