#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gpu/allocator/contenders.hpp"
#include "gpu/gpu.hpp"

/// Host time of an allocation and a free, of several allocators of device memory. Nothing runs on
/// the device meanwhile, so that what is measured is the allocator and the calls that it makes.
/// `device_MiB` is what the allocator has taken of the device by the end.

namespace millrace::bench {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;
constexpr std::size_t kLive = 1000;
constexpr std::size_t kDraws = std::size_t{1} << 16;
constexpr double kSmallest = 512, kLargest = 4 << 20;
constexpr double kSeconds = 0.3;

struct Draw {
  std::size_t bytes;
  std::size_t victim;  ///< of the live blocks
};

/// The same for every allocator: sizes whose logarithms are uniform.
const std::vector<Draw>& draws() {
  static const std::vector<Draw> all = [] {
    std::mt19937_64 random{1};
    std::uniform_real_distribution<double> log{std::log(kSmallest), std::log(kLargest)};
    std::vector<Draw> drawn(kDraws);
    for (Draw& draw : drawn) {
      draw = {static_cast<std::size_t>(std::exp(log(random))), random() % kLive};
    }
    return drawn;
  }();
  return all;
}

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

/// What every benchmark has: the allocator, and what the device had free before.
struct Setting {
  explicit Setting(MakeContender make) : contender(make(streams)) {}

  void finish(benchmark::State& state) const {
    const std::size_t now = free_memory();
    const double taken = now < before ? static_cast<double>(before - now) : 0.0;
    state.counters["device_MiB"] = std::round(taken / (1 << 20));
  }

  Streams streams;
  std::size_t before = free_memory();
  std::unique_ptr<Contender> contender;
};

void one_size(benchmark::State& state, MakeContender make) {
  const Setting setting{make};
  Contender& contender = *setting.contender;
  contender.free(contender.allocate(kBytes), kBytes);
  for (auto _ : state) contender.free(contender.allocate(kBytes), kBytes);
  setting.finish(state);
}

void recorded_use(benchmark::State& state, MakeContender make) {
  const Setting setting{make};
  Contender& contender = *setting.contender;
  contender.free_used_by_side(contender.allocate(kBytes), kBytes);
  for (auto _ : state) contender.free_used_by_side(contender.allocate(kBytes), kBytes);
  setting.finish(state);
}

struct Block {
  void* address = nullptr;
  std::size_t bytes = 0;
};

void random_sizes(benchmark::State& state, MakeContender make) {
  const Setting setting{make};
  Contender& contender = *setting.contender;
  const std::vector<Draw>& drawn = draws();
  std::vector<Block> live(kLive);
  std::size_t next = 0;
  for (Block& block : live) {
    block.bytes = drawn[next++].bytes;
    block.address = contender.allocate(block.bytes);
  }
  const auto replace_one = [&] {
    const Draw& draw = drawn[next++ % kDraws];
    Block& block = live[draw.victim];
    contender.free(block.address, block.bytes);
    block = {contender.allocate(draw.bytes), draw.bytes};
  };
  for (std::size_t i = 0; i < 10 * kLive; ++i) replace_one();  // caches fill
  for (auto _ : state) replace_one();
  setting.finish(state);
  for (const Block& block : live) contender.free(block.address, block.bytes);
}

struct Named {
  const char* name;
  MakeContender make;
};

}  // namespace

void register_benchmarks() {
  using Body = void (*)(benchmark::State&, MakeContender);
  const std::pair<const char*, Body> programs[] = {{"one_size_1MiB", one_size},
                                                   {"random_sizes_1000_live", random_sizes},
                                                   {"recorded_use_1MiB", recorded_use}};
  const Named contenders[] = {
      {"millrace", make_millrace},           {"torch_preset", make_torch_preset},
      {"cudaMallocAsync", make_driver_pool}, {"cub_CachingDeviceAllocator", make_cub},
      {"thrust_pool", make_thrust_pool},     {"cudaMalloc", make_cuda_malloc}};
  for (const auto& [name, body] : programs) {
    for (const Named& contender : contenders) {
      benchmark::RegisterBenchmark(fmt::format("{}/{}", name, contender.name).c_str(), body,
                                   contender.make)
          ->MinTime(kSeconds)
          ->UseRealTime();
    }
  }
}

}  // namespace millrace::bench
