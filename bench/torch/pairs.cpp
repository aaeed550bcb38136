// Nanoseconds of a pair (allocation and free) of PyTorch's own caching allocator: with one size,
// with random sizes and 1,000 live blocks, and with blocks that another stream used. peer.py
// compiles it for the PyTorch of the machine.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <vector>

#include "shim.h"

namespace {

constexpr int kRounds = 15;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Log-uniform sizes from 512 bytes to 8 MiB.
std::vector<std::size_t> drawn_sizes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> exponent{9, 23};
  std::vector<std::size_t> sizes(count);
  for (std::size_t& size : sizes) size = static_cast<std::size_t>(std::exp2(exponent(random)));
  return sizes;
}

double ns_per_pair(std::size_t pairs, const std::function<void(std::size_t)>& run) {
  run(pairs);  // fills the caches
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    run(pairs);
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
    rounds.push_back(taken.count() / static_cast<double>(pairs));
  }
  return median(rounds);
}

void report(const char* name, double ns) { std::printf("%s %.1f\n", name, ns); }

}  // namespace

int main(int argc, char** argv) {
  const MillraceTorch* const torch = millrace_torch(argc > 1 ? std::atoi(argv[1]) : 0);
  if (torch == nullptr) return 1;
  cudaStream_t stream = nullptr, side = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking) != cudaSuccess) {
    std::fprintf(stderr, "pairs: no stream could be created\n");
    return 1;
  }
  std::printf("version %s\n", torch->version);
  report("one-size", ns_per_pair(20000, [&](std::size_t pairs) {
           for (std::size_t i = 0; i < pairs; ++i) {
             torch->raw_free(torch->raw_allocate(std::size_t{1} << 20, stream));
           }
         }));
  {
    const std::vector<std::size_t> sizes = drawn_sizes(1 << 16, 1);
    std::vector<void*> live;
    for (std::size_t i = 0; i < 1000; ++i) live.push_back(torch->raw_allocate(sizes[i], stream));
    std::mt19937_64 random{2};
    std::size_t next = 0;
    report("random-1000-live", ns_per_pair(20000, [&](std::size_t pairs) {
             for (std::size_t i = 0; i < pairs; ++i) {
               void*& victim = live[random() % live.size()];
               torch->raw_free(victim);
               victim = torch->raw_allocate(sizes[next++ % sizes.size()], stream);
             }
           }));
    for (void* const memory : live) torch->raw_free(memory);
  }
  report("recorded-use", ns_per_pair(20000, [&](std::size_t pairs) {
           for (std::size_t i = 0; i < pairs; ++i) {
             void* const memory = torch->allocate(std::size_t{1} << 20, stream);
             torch->record_stream(memory, side);
             torch->free(memory);
           }
         }));
  return 0;
}
