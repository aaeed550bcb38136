// The cost of a replay: the bounds of the requests, each allocator with its ladder, and the stages
// of the ladder. `events` counts allocations and frees.

#include "millrace/observe/replay.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "millrace/memory/policy.hpp"
#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/bounds.hpp"
#include "millrace/observe/conflict_graph.hpp"
#include "millrace/observe/trace/allocation_log.hpp"
#include "millrace/observe/trace/read_trace.hpp"

namespace millrace {
namespace {

using trace::AllocationLog;
using trace::EventKind;

struct Shape {
  std::size_t events, live, streams;
};

/** A log that keeps `live` blocks. Sizes are from 512 bytes to 32 MiB, and each octave is equally
 * frequent. The next freed block is random. One of eight blocks is freed on another stream than
 * that of its allocation. */
AllocationLog log_of(const Shape& shape) {
  std::mt19937_64 random{1};
  const auto draw = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  AllocationLog log;
  log.source = "generated";
  log.format = trace::TraceFormat::rmm_log;
  for (std::size_t i = 0; i < shape.streams; ++i) {
    log.streams.push_back({.device = 0, .handle = 16 * (i + 1), .thread = 0});
  }
  const auto add = [&](EventKind kind, std::uint32_t stream, std::uint32_t index) {
    const trace::LoggedBlock& block = log.blocks[index];
    log.events.push_back({.kind = kind,
                          .stream = stream,
                          .block = index,
                          .address = block.address,
                          .bytes = block.bytes,
                          .position = log.events.size()});
  };
  std::vector<std::uint32_t> live;
  std::uint64_t next_address = std::uint64_t{1} << 30;
  while (log.events.size() < shape.events) {
    if (live.size() >= shape.live) {
      std::swap(live[draw(live.size())], live.back());
      const bool elsewhere = draw(8) == 0;
      const auto other = static_cast<std::uint32_t>(draw(shape.streams));
      add(EventKind::free_requested, elsewhere ? other : log.blocks[live.back()].stream,
          live.back());
      live.pop_back();
    }
    const std::uint64_t octave = std::uint64_t{512} << draw(16);
    trace::LoggedBlock block{.address = next_address, .bytes = octave + draw(octave)};
    block.stream = static_cast<std::uint32_t>(draw(shape.streams));
    next_address += 2 * octave;
    live.push_back(static_cast<std::uint32_t>(log.blocks.size()));
    log.blocks.push_back(block);
    add(EventKind::allocate, block.stream, live.back());
  }
  return log;
}

const AllocationLog& log_of(const benchmark::State& state) {
  static std::map<std::tuple<std::size_t, std::size_t, std::size_t>, AllocationLog> logs;
  const auto argument = [&](int i) { return static_cast<std::size_t>(state.range(i)); };
  const Shape shape{argument(0), argument(1), argument(2)};
  const auto [log, is_new] = logs.try_emplace({shape.events, shape.live, shape.streams});
  if (is_new) log->second = log_of(shape);
  return log->second;
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"events", "live", "streams"})->Unit(benchmark::kMillisecond)->Iterations(1);
  for (const std::int64_t live : {10, 3'000}) {
    for (const std::int64_t streams : {1, 2, 3, 8}) {
      for (const std::int64_t events : {10'000, 100'000, 1'000'000}) {
        bench->Args({events, live, streams});
      }
    }
  }
  bench->Args({100'000, 3'000, 30'000});
}

/** Writes the trace of an allocator with the same requests. All blocks lie side by side in one
 * segment, and no stream is ever ordered after another. */
void write_trace(const AllocationLog& log, AllocationTrace& trace) {
  trace.segment_acquired(nullptr, log.blocks.back().address + log.blocks.back().bytes);
  std::vector<Marker> next(log.streams.size(), 1);
  for (const trace::LogEvent& event : log.events) {
    const trace::LoggedBlock& block = log.blocks[event.block];
    auto* const address = reinterpret_cast<void*>(block.address);
    if (event.kind == EventKind::allocate) {
      const StreamId stream{block.stream, 1};
      trace.allocated({event.block, address, block.bytes, block.bytes, stream, stream, "", {}, {}});
    } else {
      const std::vector<Point> points{{{event.stream, 1}, ++next[event.stream]}};
      trace.freed({event.block, address, block.bytes, points});
    }
  }
}

void bounds_of_requests(benchmark::State& state) {
  const AllocationLog& log = log_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(request_bounds(log, 0).packed);
}
BENCHMARK(bounds_of_requests)->Apply(shapes);

/** A replay on one allocator, with its ladder. */
void replay_with(benchmark::State& state, const Policy& policy) {
  const AllocationLog& log = log_of(state);
  const RequestBounds bounds;
  for (auto _ : state) {
    const ReplayReport report = replay(log, 0, {.policy = policy, .bounds = bounds});
    benchmark::DoNotOptimize(report.ladder.packed);
  }
}
BENCHMARK_CAPTURE(replay_with, torch, Policy::torch())->Apply(shapes);
BENCHMARK_CAPTURE(replay_with, millrace, Policy::millrace())->Apply(shapes);

void conflict_graph(benchmark::State& state) {
  AllocationTrace trace;
  write_trace(log_of(state), trace);
  for (auto _ : state) benchmark::DoNotOptimize(ConflictGraph{trace, {}}.size());
}
BENCHMARK(conflict_graph)->Apply(shapes);

void heaviest_conflict(benchmark::State& state) {
  AllocationTrace trace;
  write_trace(log_of(state), trace);
  const ConflictGraph graph{trace, {}};
  for (auto _ : state) benchmark::DoNotOptimize(heaviest_conflicting_set(graph));
}
BENCHMARK(heaviest_conflict)->Apply(shapes);

void packing_of_conflicts(benchmark::State& state) {
  AllocationTrace trace;
  write_trace(log_of(state), trace);
  const ConflictGraph graph{trace, {}};
  for (auto _ : state) benchmark::DoNotOptimize(pack_conflicts(graph).bytes);
}
BENCHMARK(packing_of_conflicts)->Apply(shapes);

std::string rmm_text(const AllocationLog& log) {
  std::string text = "Thread,Time,Action,Pointer,Size,Stream\n";
  for (const trace::LogEvent& event : log.events) {
    char row[128];
    std::snprintf(row, sizeof row, "1,00:00:00.1,%s,0x%llx,%llu,0x%llx\n",
                  event.kind == EventKind::allocate ? "allocate" : "free",
                  static_cast<unsigned long long>(event.address),
                  static_cast<unsigned long long>(event.bytes),
                  static_cast<unsigned long long>(log.streams[event.stream].handle));
    text += row;
  }
  return text;
}

/** All work of the program for an RMM log: reading, bounds, both allocators. */
void rmm_log(benchmark::State& state) {
  const std::string text = rmm_text(log_of(state));
  for (auto _ : state) {
    const AllocationLog log = trace::parse_trace(text, "rmm.csv");
    const RequestBounds bounds = request_bounds(log, 0);
    for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
      const ReplayReport report = replay(log, 0, {.policy = policy, .bounds = bounds});
      benchmark::DoNotOptimize(report.ladder.packed);
    }
  }
}
BENCHMARK(rmm_log)
    ->ArgNames({"rows", "live", "streams"})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->Args({100'000, 200, 1})
    ->Args({100'000, 200, 2})
    ->Args({1'000'000, 200, 1})
    ->Args({1'000'000, 200, 2});

}  // namespace
}  // namespace millrace
