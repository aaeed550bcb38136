// The law of a commit's time: each row that changed earlier is delivered or counted as missing.
#include "ship/step_times.hpp"

#include <chrono>

#include "test/support/catch.hpp"

namespace millrace::test {
namespace {

std::uint64_t clock_ms() {
  using std::chrono::milliseconds;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

}  // namespace

TEST_CASE("a commit's time is never later than its step's end, however many steps wait") {
  ship::StepTimes times{0};
  const std::uint64_t most_steps = GENERATE(10, 4096, 20'000);
  CAPTURE(most_steps);
  std::uint64_t step = 0;
  for (; step < most_steps / 2; ++step) times.done(step + 1);
  const std::uint64_t half = step, then = clock_ms();
  while (clock_ms() < then + 3) {
  }
  for (; step < most_steps; ++step) times.done(step + 1);
  std::uint64_t last = 0;
  for (std::uint64_t of = 1; of <= half; ++of) {
    const std::uint64_t claimed = times.of(of);
    CHECK(claimed >= last);
    CHECK(claimed <= then);
    last = claimed;
  }
  CHECK(times.of(most_steps) > then);
}

}  // namespace millrace::test
