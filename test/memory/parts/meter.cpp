// Peaks of scopes that overlap in any way beside one list of all values.
#include "memory/meter.hpp"

#include <random>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

TEST_CASE("each scope has the peaks since it was opened, in whatever order scopes close",
          "[parts]") {
  struct Open {
    ScopeId scope;
    std::size_t peak;
  };
  std::mt19937_64 random{seed()};
  Meter meter;
  std::vector<Open> open;
  std::vector<std::size_t> live;
  std::size_t allocated = 0;
  const StreamId stream{0, 1};
  for (int step = 0; step < 5000; ++step) {
    const auto what = random() % 10;
    if (what < 4 || live.empty()) {
      live.push_back(512 * (1 + random() % 100));
      allocated += live.back();
      meter.allocated(live.back(), live.back(), stream, {});
    } else if (what < 8) {
      meter.freed(live.back(), live.back(), stream, {});
      allocated -= live.back();
      live.pop_back();
    } else if (what == 8) {
      open.push_back({meter.open_scope(), allocated});
    } else if (!open.empty()) {
      std::swap(open[random() % open.size()], open.back());
      meter.close_scope(open.back().scope);
      CHECK_THROWS_AS(meter.peaks(open.back().scope), std::invalid_argument);
      open.pop_back();
    }
    for (Open& scope : open) {
      scope.peak = std::max(scope.peak, allocated);
      const MemoryGauges peaks = meter.peaks(scope.scope);
      REQUIRE(peaks.allocated.peak == scope.peak);
      REQUIRE(peaks.allocated.current == allocated);
    }
  }
}

TEST_CASE("a stream that took another's place is counted for itself", "[parts]") {
  Meter meter;
  const StreamId first{3, 1}, second{3, 2};
  meter.allocated(512, 512, first, {});
  meter.allocated(1024, 1024, second, {});
  meter.freed(512, 512, first, {});
  meter.freed(1024, 1024, second, {});
  CHECK(meter.bytes().allocated.current == 0);
  CHECK(meter.bytes().allocated.peak == 1536);
}

}  // namespace millrace::test
