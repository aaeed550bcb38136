#include <fmt/format.h>

#include <set>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"

namespace millrace::facts {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr int kMemoryRounds = 5;

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

struct Sizes {
  const char* name;
  cudaError_t (*take)(void**, std::size_t);
  cudaError_t (*give)(void*);
};

cudaError_t take_pinned(void** memory, std::size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t take_device(void** memory, std::size_t bytes) { return cudaMalloc(memory, bytes); }

Answer costs_by_size(const Sizes& kind, std::span<const std::size_t> sizes) {
  Answer answer{{}, nlohmann::json::array()};
  for (const std::size_t bytes : sizes) {
    if (bytes > free_memory() / 2) continue;
    std::vector<double> take, give;
    for (int i = 0; i < kMemoryRounds; ++i) {
      void* memory = nullptr;
      take.push_back(microseconds_of([&] { check(kind.take(&memory, bytes), kind.name, bytes); }));
      give.push_back(microseconds_of([&] { check(kind.give(memory), kind.name, memory); }));
    }
    answer.data.push_back(
        {{"bytes", bytes}, {"allocate_us", median(take)}, {"free_us", median(give)}});
    answer.text += fmt::format("{}{} MiB: {:.0f} and {:.0f} us", answer.text.empty() ? "" : "; ",
                               bytes / kMiB, median(take), median(give));
  }
  return answer;
}

Answer malloc_costs(int) {
  static constexpr std::size_t sizes[] = {2 * kMiB, 32 * kMiB, 256 * kMiB, 1024 * kMiB,
                                          4096 * kMiB};
  return costs_by_size({"cudaMalloc, cudaFree", take_device, cudaFree}, sizes);
}

Answer pinned_costs(int) {
  static constexpr std::size_t sizes[] = {2 * kMiB, 64 * kMiB, 1024 * kMiB};
  return costs_by_size({"cudaHostAlloc, cudaFreeHost", take_pinned, cudaFreeHost}, sizes);
}

Answer granularity(int) {
  Answer answer;
  for (const std::size_t bytes : {std::size_t{1}, 2 * kMiB, 3 * kMiB, 21 * kMiB}) {
    constexpr int kCount = 16;
    const std::size_t before = free_memory();
    std::vector<void*> taken(kCount);
    for (void*& memory : taken) check(cudaMalloc(&memory, bytes), "cudaMalloc", bytes);
    const std::size_t used = before - free_memory();
    for (void* const memory : taken) check(cudaFree(memory), "cudaFree", memory);
    answer.data.push_back({{"bytes", bytes}, {"allocations", kCount}, {"device_bytes", used}});
    answer.text += fmt::format("{}{} of {} bytes take {:.2f} MiB", answer.text.empty() ? "" : "; ",
                               kCount, bytes, static_cast<double>(used) / kMiB);
  }
  return answer;
}

Answer bandwidths(int) {
  constexpr std::size_t kBytes = 256 * kMiB;
  const auto stream = make_stream();
  void *from = nullptr, *to = nullptr, *pinned = nullptr;
  check(cudaMalloc(&from, kBytes), "cudaMalloc", kBytes);
  check(cudaMalloc(&to, kBytes), "cudaMalloc", kBytes);
  check(cudaHostAlloc(&pinned, kBytes, cudaHostAllocDefault), "cudaHostAlloc", kBytes);
  const auto gigabytes_a_second = [&](void* destination, const void* source, cudaMemcpyKind kind) {
    std::vector<double> taken;
    for (int i = 0; i < kMemoryRounds; ++i) {
      taken.push_back(device_microseconds(stream.get(), [&] {
        check(cudaMemcpyAsync(destination, source, kBytes, kind, stream.get()), "cudaMemcpyAsync");
      }));
    }
    return 1e-3 * kBytes / median(taken);
  };
  const double in = gigabytes_a_second(from, pinned, cudaMemcpyHostToDevice);
  const double out = gigabytes_a_second(pinned, from, cudaMemcpyDeviceToHost);
  const double over = gigabytes_a_second(to, from, cudaMemcpyDeviceToDevice);
  check(cudaFree(from), "cudaFree");
  check(cudaFree(to), "cudaFree");
  check(cudaFreeHost(pinned), "cudaFreeHost");
  return {fmt::format("{:.1f} GB/s in, {:.1f} out (pinned), {:.0f} over (bytes copied), 256 MiB",
                      in, out, over),
          {{"host_to_device_gb_s", in},
           {"device_to_host_gb_s", out},
           {"device_to_device_gb_s", over},
           {"bytes", kBytes}}};
}

constexpr Fact kMemoryFacts[] = {
    {"cudamalloc-costs", "What do cudaMalloc and cudaFree cost on an idle device?", malloc_costs},
    {"pinned-costs", "What do cudaHostAlloc and cudaFreeHost cost?", pinned_costs},
    {"cudamalloc-granularity", "How much memory does an allocation really take?", granularity},
    {"bandwidths", "How fast are copies?", bandwidths},
};

}  // namespace

std::span<const Fact> memory_facts() { return kMemoryFacts; }

}  // namespace millrace::facts
