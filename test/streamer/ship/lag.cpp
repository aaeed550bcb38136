#include "millrace/streamer/lag.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "ship/capture_times.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;

TEST_CASE("quantiles of all lags are at least exact and at most 1/32 too long") {
  std::mt19937_64 random{test::seed()};
  for (int round = 0; round < 20; ++round) {
    ship::Lags lags;
    std::vector<Nanoseconds::rep> all;
    const std::size_t count = 1 + random() % 20'000;
    for (std::size_t i = 0; i < count; ++i) {
      const auto lag = static_cast<Nanoseconds::rep>(random() >> (1 + random() % 63));
      lags.add(Nanoseconds{lag});
      all.push_back(lag);
    }
    std::ranges::sort(all);
    for (const double share : {0.0, 0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto rank = std::max<double>(1, std::ceil(share * static_cast<double>(count)));
      const Nanoseconds::rep exact = all[static_cast<std::size_t>(rank) - 1];
      const Nanoseconds::rep estimate = lags.quantile(share).count();
      CAPTURE(count, share, exact, estimate);
      CHECK(estimate >= exact);
      CHECK(static_cast<double>(estimate) <= static_cast<double>(exact) * (1 + 1.0 / 32));
    }
    CHECK(lags.longest().count() == all.back());
    CHECK(lags.count() == count);
  }
}

TEST_CASE("old lags count as much as new lags") {
  ship::Lags lags;
  lags.add(std::chrono::seconds{18}, 200);  // an outage at the beginning
  for (int i = 0; i < 10'000; ++i) lags.add(std::chrono::milliseconds{1});
  CHECK(lags.quantile(0.99) >= std::chrono::seconds{18});
}

TEST_CASE("the quantiles of no lags are 0") {
  CHECK(ship::Lags{}.quantile(0.99) == Nanoseconds{0});
  CHECK(ship::Lags{}.longest() == Nanoseconds{0});
}

TEST_CASE("capture times are kept in bounded memory and are never too late") {
  std::mt19937_64 random{test::seed()};
  for (const std::size_t steps : {1, 2, 255, 256, 257, 1000, 100'000}) {
    ship::CaptureTimes times;
    std::vector<Nanoseconds::rep> all;
    Nanoseconds::rep now = 1000;
    for (std::size_t i = 0; i < steps; ++i) {
      now += 1 + static_cast<Nanoseconds::rep>(random() % 100);
      times.add(Nanoseconds{now});
      all.push_back(now);
    }
    CHECK(times.steps() == steps);
    CHECK(times.oldest().count() == all.front());
    CHECK(times.entries().size() <= ship::CaptureTimes::kMost);
    std::size_t at = 0;
    Nanoseconds::rep most = 0;
    for (const auto& entry : times.entries()) {
      for (std::uint64_t i = 0; i < entry.steps; ++i, ++at) {
        REQUIRE(entry.at.count() <= all[at]);
        most = std::max(most, all[at] - entry.at.count());
      }
    }
    CHECK(at == steps);
    CHECK(static_cast<double>(most) <= static_cast<double>(all.back() - all.front()) / 64 + 200);
  }
}
