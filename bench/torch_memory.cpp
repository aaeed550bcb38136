// Host cost of an allocation and its free by PyTorch: TorchMemory on a device whose calls cost
// nothing.

#include "millrace/interop/torch_memory.hpp"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "test/support/lagging_device.hpp"

namespace millrace {
namespace {

struct Bench {
  VirtualMachine machine;
  test::LaggingDevice device{machine.add_device()};
  TorchMemory memory{device, 0, TorchSettings{}};

  void* allocate(std::size_t bytes) { return memory.allocate(bytes, {nullptr, true}, nullptr); }
};

/// Replaces a random live block by a block of random size: a power of two from 512 B to 4 MiB.
void random_sizes(benchmark::State& state) {
  Bench bench;
  std::minstd_rand random{1};
  const auto size = [&] { return std::size_t{512} << random() % 14; };
  std::vector<void*> live(static_cast<std::size_t>(state.range(0)));
  for (void*& each : live) each = bench.allocate(size());
  for (auto _ : state) {
    void*& each = live[random() % live.size()];
    bench.memory.deallocate(each, nullptr);
    each = bench.allocate(size());
  }
  for (void* const each : live) bench.memory.deallocate(each, nullptr);
}
BENCHMARK(random_sizes)->Arg(1'000)->Arg(10'000);

void one_size(benchmark::State& state) {
  Bench bench;
  for (auto _ : state) bench.memory.deallocate(bench.allocate(std::size_t{1} << 20), nullptr);
}
BENCHMARK(one_size);

/// Reads the statistics. PyTorch does so after each step, and some programs after each operation.
void statistics(benchmark::State& state) {
  Bench bench;
  std::vector<void*> live(1'000);
  for (void*& each : live) each = bench.allocate(4096);
  for (auto _ : state) benchmark::DoNotOptimize(bench.memory.statistics());
  for (void* const each : live) bench.memory.deallocate(each, nullptr);
}
BENCHMARK(statistics);

}  // namespace
}  // namespace millrace
