#include "device/cuda/event_clock.hpp"

#include <cmath>

#include "test/gpu_calls/bench.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
std::int64_t now = 0;

}  // namespace

TEST_CASE("a clock of events keeps a bounded number of events in a day, and stays exact") {
  fake::reset();
  now = 0;
  const std::size_t before = fake::live_events();
  cuda::EventClock clock{[] { return now; }};
  struct Timed {
    cuda::UniqueEvent event;
    std::int64_t at;
  };
  std::vector<Timed> timed;
  std::size_t most = 0;
  for (std::int64_t second = 1; second <= 86'400; ++second) {
    now = second * kSecond;
    fake::set_time(now);
    clock.tick();
    most = std::max(most, fake::live_events() - before - timed.size());
    if (second % 3600 == 0) {
      now += 123'456'789;
      fake::set_time(now);
      timed.push_back({cuda::make_event(cudaEventDefault), now});
      static_cast<void>(cudaEventRecord(timed.back().event.get(), cudaStreamLegacy));
      const std::int64_t measured = clock.time_of(timed.back().event.get()).count();
      CHECK(std::llabs(measured - now) < 1'000);  // a recent event: within a microsecond
    }
  }
  CHECK(most <= cuda::EventClock::kMostBases);
  for (const Timed& each : timed) {
    CHECK(std::llabs(clock.time_of(each.event.get()).count() - each.at) < 20'000);
  }
}
