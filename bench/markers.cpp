// The cost of marks and polls without the driver, on a device whose events cost nothing, with much
// work in flight.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "test/support/lagging_device.hpp"

namespace millrace {
namespace {

using test::LaggingDevice;

struct Bench {
  VirtualMachine machine;
  LaggingDevice device{machine.add_device()};
  OrderedDevice ordered{device};
};

std::vector<Stream> streams_on(Bench& bench, std::int64_t count, bool blocking = false) {
  std::vector<Stream> streams;
  for (std::int64_t i = 0; i < count; ++i) {
    streams.emplace_back(bench.ordered, StreamOptions{.blocking = blocking});
  }
  return streams;
}

void mark(benchmark::State& state) {
  Bench bench;
  Stream stream{bench.ordered};
  for (auto _ : state) benchmark::DoNotOptimize(stream.mark());
}
BENCHMARK(mark);

void mark_and_wait(benchmark::State& state) {
  Bench bench;
  Stream side{bench.ordered}, main{bench.ordered};
  for (auto _ : state) main.wait_stream(side);
}
BENCHMARK(mark_and_wait);

void newest_marker(benchmark::State& state) {
  Bench bench;
  for (auto _ : state) benchmark::DoNotOptimize(bench.ordered.newest_marker());
}
BENCHMARK(newest_marker);

void attached(benchmark::State& state) {
  Bench bench;
  Stream stream{bench.ordered};
  for (auto _ : state) benchmark::DoNotOptimize(bench.ordered.attached(stream.id()));
}
BENCHMARK(attached);

void earliest_wait(benchmark::State& state) {
  Bench bench;
  Stream side{bench.ordered}, main{bench.ordered};
  bench.device.behind = LaggingDevice::kStuck;
  const Point point = side.mark();
  for (auto _ : state) benchmark::DoNotOptimize(bench.ordered.earliest_wait(main.id(), point));
  bench.device.behind = 0;
}
BENCHMARK(earliest_wait);

// Time of one poll that finds all of a stream's markers complete.
void poll_of_complete_markers(benchmark::State& state) {
  Bench bench;
  Stream stream{bench.ordered};
  for (auto _ : state) {
    state.PauseTiming();
    bench.device.behind = LaggingDevice::kStuck;
    for (std::int64_t i = 0; i < state.range(0); ++i) stream.mark();
    bench.device.behind = 0;
    state.ResumeTiming();
    bench.ordered.poll();
  }
}
BENCHMARK(poll_of_complete_markers)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Iterations(1);

void poll_with_streams_in_flight(benchmark::State& state) {
  Bench bench;
  const auto streams = streams_on(bench, state.range(0));
  bench.device.behind = LaggingDevice::kStuck;
  for (const Stream& stream : streams) bench.ordered.mark(stream);
  for (auto _ : state) bench.ordered.poll();
  bench.device.behind = 0;
}
BENCHMARK(poll_with_streams_in_flight)->Arg(100)->Arg(1'000)->Arg(10'000)->MinTime(0.05);

// Marks of one stream, requested in one callback, and the poll that makes them.
void owed_marks(benchmark::State& state) {
  Bench bench;
  Stream stream{bench.ordered};
  for (auto _ : state) {
    bench.device.callback(stream.handle(), [&] {
      for (std::int64_t i = 0; i < state.range(0); ++i) stream.mark();
    });
    bench.ordered.poll();
  }
}
BENCHMARK(owed_marks)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Iterations(1);

void mark_on_legacy_stream(benchmark::State& state) {
  Bench bench;
  const StreamRef legacy = bench.ordered.attach(bench.device.legacy_stream());
  const auto streams = streams_on(bench, state.range(0), true);
  for (auto _ : state) benchmark::DoNotOptimize(bench.ordered.mark(legacy));
}
BENCHMARK(mark_on_legacy_stream)->Arg(10)->Arg(100)->Arg(1'000)->Arg(10'000)->Iterations(64);

// The device is 300 markers behind. Reports the number of events and the longest mark.
void mark_while_device_lags(benchmark::State& state) {
  Bench bench;
  Stream stream{bench.ordered};
  bench.device.behind = 300;
  std::chrono::nanoseconds longest{0};
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    stream.mark();
    longest = std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - begin);
  }
  state.counters["events"] = static_cast<double>(bench.device.calls(Call::create_event));
  state.counters["longest_us"] = static_cast<double>(longest.count()) / 1000;
}
BENCHMARK(mark_while_device_lags)->Iterations(40'000);

void one_shot_stream(benchmark::State& state) {
  Bench bench;
  Stream main{bench.ordered};
  for (auto _ : state) {
    Stream once{bench.ordered};
    main.wait_stream(once);
  }
}
BENCHMARK(one_shot_stream);

}  // namespace
}  // namespace millrace
