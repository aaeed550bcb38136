// The cost of the ordering queries that allocations, frees, records and waits make.

#include <benchmark/benchmark.h>

#include <utility>

#include "millrace/ordering/frontier.hpp"
#include "millrace/ordering/ledger.hpp"

namespace millrace {
namespace {

Frontier frontier_of(std::uint32_t streams, std::uint32_t step) {
  Frontier frontier;
  for (std::uint32_t i = 0; i < streams; ++i) frontier.advance({{i * step, 1}, i + 1});
  return frontier;
}

void frontier_covers(benchmark::State& state) {
  const auto streams = static_cast<std::uint32_t>(state.range(0));
  const Frontier frontier = frontier_of(streams, 1);
  const Point point{{streams / 2, 1}, 1};
  for (auto _ : state) benchmark::DoNotOptimize(frontier.covers(point));
}
BENCHMARK(frontier_covers)->Arg(2)->Arg(8)->Arg(64);

void frontier_join(benchmark::State& state) {
  const auto streams = static_cast<std::uint32_t>(state.range(0));
  Frontier frontier = frontier_of(streams, 2);
  const Frontier other = frontier_of(streams, 3);
  for (auto _ : state) {
    frontier.join(other);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(frontier_join)->Arg(2)->Arg(8)->Arg(64);

/** @brief A main stream that has waited for each of several side streams. */
class Streams {
 public:
  explicit Streams(std::int64_t sides) : main(ledger.open()) {
    for (std::int64_t i = 0; i < sides; ++i) {
      side = ledger.open();
      ledger.join(main, record(side));
    }
  }
  Point record(StreamId stream) {
    PendingRecord record = ledger.begin_record(stream);
    const Point point = record.point;
    ledger.publish_record(std::move(record), ++token_);
    return point;
  }

  Ledger ledger;
  StreamId main, side;

 private:
  MarkerToken token_ = 0;
};

void ledger_next(benchmark::State& state) {
  Streams s{4};
  for (auto _ : state) benchmark::DoNotOptimize(s.ledger.next(s.side));
}
BENCHMARK(ledger_next);

void ledger_ordered_on_own_stream(benchmark::State& state) {
  Streams s{4};
  const Point point{s.main, s.ledger.next(s.main)};
  for (auto _ : state) benchmark::DoNotOptimize(s.ledger.ordered(point, s.main));
}
BENCHMARK(ledger_ordered_on_own_stream);

void ledger_ordered_after_a_wait(benchmark::State& state) {
  Streams s{state.range(0)};
  const Point point{s.side, 1};
  for (auto _ : state) benchmark::DoNotOptimize(s.ledger.ordered(point, s.main));
}
BENCHMARK(ledger_ordered_after_a_wait)->Arg(2)->Arg(8)->Arg(64);

void ledger_record_wait_complete(benchmark::State& state) {
  Streams s{state.range(0)};
  for (auto _ : state) {
    const Point marker = s.record(s.side);
    s.ledger.join(s.main, marker);
    benchmark::DoNotOptimize(s.ledger.complete(marker));
  }
}
BENCHMARK(ledger_record_wait_complete)->Arg(2)->Arg(8)->Arg(64);

void ledger_completed(benchmark::State& state) {
  Streams s{4};
  const Point point{s.side, 1};
  for (auto _ : state) benchmark::DoNotOptimize(s.ledger.completed(point));
}
BENCHMARK(ledger_completed);

}  // namespace
}  // namespace millrace
