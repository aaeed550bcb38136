// Compares the peaks of overlapping scopes with a list of all values.
#include "memory/meter.hpp"

#include <random>
#include <string>
#include <vector>

#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/steps.hpp"

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

TEST_CASE("a tag is found in few steps however many tags there are, and keeps its number",
          "[parts]") {
  for (const std::size_t n : {std::size_t{1'000}, std::size_t{65'000}}) {
    Meter meter;
    CHECK(meter.tag("untagged").index == 0);
    std::uint64_t most = 0, wrong = 0;
    for (std::size_t i = 1; i <= n; ++i) {
      const std::string name = "tag number " + std::to_string(i);
      most = std::max(most, steps([&] { wrong += meter.tag(name).index == i ? 0 : 1; }));
    }
    CHECK(meter.tag("tag number 7").index == 7);
    CHECK(meter.name({static_cast<std::uint16_t>(n)}) == "tag number " + std::to_string(n));
    INFO(n << " tags");
    CHECK(wrong == 0);
    CHECK(most <= 100);
  }
}

TEST_CASE("tags are listed in the order in which they were made", "[parts]") {
  const Bench bench;
  Meter meter;
  const std::vector<std::string> names{"rows", "a batch", "zeros", "activations"};
  for (const std::string& name : names) {
    meter.allocated(512, 512, bench.main.id(), meter.tag(name));
  }
  std::vector<std::string> listed;
  for (const ShareStatistics& share : meter.statistics(bench.ordered).tags)
    listed.push_back(share.name);
  CHECK(listed == names);
}

TEST_CASE("a stream in a reused slot leaves exact totals", "[parts]") {
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
