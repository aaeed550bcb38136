// Records of which general memory the graphs use.
#include "memory/graph/graph_uses.hpp"

#include <cstddef>
#include <initializer_list>

#include "memory/graph/private_pool.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

// The test needs only the addresses of pools.
struct Place {
  alignas(PrivatePool) std::byte bytes[sizeof(PrivatePool)];
};
const PrivatePool& pool(const Place& place) { return reinterpret_cast<const PrivatePool&>(place); }

constexpr Point kFree{{1, 1}, 5}, kLaunch{{2, 1}, 3}, kOtherGraph{{3, 1}, 8};

PointSet points(std::initializer_list<Point> all) {
  PointSet set;
  for (const Point point : all) set.join(point);
  return set;
}

}  // namespace

TEST_CASE("a block that graphs of two pools use is kept until both pools have ended", "[parts]") {
  const Place one{}, two{};
  int block = 0;
  GraphUses uses;
  uses.add(&block, pool(one));
  uses.add(&block, pool(two));
  uses.add(&block, pool(one));
  CHECK_FALSE(uses.keeps(&block));
  PointSet after = points({kFree});
  CHECK(uses.keep(&block, after));
  CHECK(uses.keeps(&block));
  CHECK(uses.end(pool(one), points({kLaunch})).empty());
  CHECK(uses.keeps(&block));
  const auto freed = uses.end(pool(two), points({kOtherGraph}));
  REQUIRE(freed.size() == 1);
  CHECK(freed[0].address == &block);
  CHECK(freed[0].points == points({kFree, kLaunch, kOtherGraph}));
  CHECK(uses.empty());
  CHECK(uses.end(pool(two), points({kOtherGraph})).empty());
}

TEST_CASE("a block that is freed after its graphs is ordered after their launches", "[parts]") {
  const Place one{}, none{};
  int block = 0, idle = 0;
  GraphUses uses;
  uses.add(&block, pool(one));
  uses.add(&idle, pool(none));
  CHECK(uses.end(pool(one), points({kLaunch})).empty());
  CHECK(uses.end(pool(none), {}).empty());  // it never ran
  PointSet after = points({kFree});
  CHECK_FALSE(uses.keep(&idle, after));
  CHECK(after == points({kFree}));
  CHECK_FALSE(uses.keep(&block, after));
  CHECK(after == points({kFree, kLaunch}));
  CHECK(uses.empty());
}

}  // namespace millrace::test
