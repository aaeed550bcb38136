// Compares a meter that gets tallies now and then with a meter that gets every change.
#include "memory/tally.hpp"

#include <array>
#include <random>
#include <vector>

#include "memory/meter.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

struct Live {
  std::size_t stream, requested, bytes;
  Tag tag;
};

void check_same(const Gauge& a, const Gauge& b) {
  CHECK(a.current == b.current);
  CHECK(a.peak == b.peak);
}

void check_same(const MemoryGauges& a, const MemoryGauges& b) {
  check_same(a.requested, b.requested);
  check_same(a.allocated, b.allocated);
  check_same(a.active, b.active);
  check_same(a.reserved, b.reserved);
  check_same(a.cached, b.cached);
}

}  // namespace

TEST_CASE("a tally that is added before other changes leaves the meter exact", "[parts]") {
  std::mt19937_64 random{seed()};
  Meter told, added;
  const std::array<StreamId, 2> streams{StreamId{0, 1}, StreamId{1, 1}};
  Tally tally;
  std::array<Tally::Change, 2> shares;
  const auto add = [&] {
    added.add(tally);
    for (std::size_t i = 0; i < 2; ++i) added.add(streams[i], shares[i]);
  };
  const std::array<Tag, 2> tags{Tag{}, told.tag("rows")};
  REQUIRE(added.tag("rows").index == tags[1].index);
  add();
  told.reserved(std::size_t{1} << 30);
  added.reserved(std::size_t{1} << 30);
  const ScopeId scope = told.open_scope();
  REQUIRE(added.open_scope().value == scope.value);
  std::vector<Live> live;
  for (int step = 0; step < 5000; ++step) {
    const bool frees = !live.empty() && random() % 2 == 0;
    if (frees) std::swap(live[random() % live.size()], live.back());
    const std::size_t bytes = 512 * (1 + random() % 100);
    const Live block =
        frees ? live.back() : Live{random() % 2, bytes - random() % 512, bytes, tags[random() % 2]};
    const StreamId stream = streams[block.stream];
    if (random() % 50 == 0) added.add(tally);
    REQUIRE(tally.knows(block.tag));
    if (frees) {
      told.freed(block.requested, block.bytes, stream, block.tag);
      tally.free(block.requested, block.bytes, block.tag);
      shares[block.stream].subtract(block.bytes);
      live.pop_back();
    } else {
      told.allocated(block.requested, block.bytes, stream, block.tag);
      tally.allocate(block.requested, block.bytes, block.tag);
      shares[block.stream].add(block.bytes);
      live.push_back(block);
    }
    if (step % 500 != 0) continue;
    add();
    check_same(told.bytes(), added.bytes());
    check_same(told.peaks(scope), added.peaks(scope));
  }
  add();
  CHECK(told.counts().allocations == added.counts().allocations);
  CHECK(told.counts().frees == added.counts().frees);
}

TEST_CASE("a tally has room for a bounded number of bytes, and for no new tag", "[parts]") {
  Meter meter;
  Tally tally;
  const Tag tag;
  CHECK_FALSE(tally.has_room(512, tag));  // not yet added to the meter
  meter.add(tally);
  CHECK(tally.has_room(std::size_t{Tally::kMost}, tag));
  CHECK_FALSE(tally.has_room(std::size_t{Tally::kMost} + 1, tag));
  CHECK_FALSE(tally.has_room(~std::size_t{0}, tag));
  tally.allocate(512, 512, tag);
  CHECK_FALSE(tally.has_room(std::size_t{Tally::kMost}, tag));
  const Tag rows = meter.tag("rows");
  CHECK_FALSE(tally.has_room(512, rows));
  meter.add(tally);
  CHECK(tally.has_room(512, rows));
}

}  // namespace millrace::test
