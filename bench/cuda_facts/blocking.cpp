#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "cuda_facts/fact.hpp"
#include "cuda_facts/kernels.hpp"
#include "cuda_facts/measure.hpp"
#include "device/cuda/vmm.hpp"

namespace millrace::facts {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kHeld = 100ms;
constexpr std::size_t kSmall = std::size_t{2} << 20, kLarge = std::size_t{1} << 30;

/// Mapped memory for one trial: a range with one page.
struct Page {
  explicit Page(int ordinal) : memory(ordinal), range(memory.reserve(memory.page_bytes())) {}
  ~Page() {
    if (mapped) memory.unmap(range, memory.page_bytes());
    if (created) memory.release(physical);
    memory.free(range, memory.page_bytes());
  }
  void create() { physical = memory.create(), created = true; }
  void release() { memory.release(physical), created = false; }
  void map() { memory.map(range, physical), mapped = true; }
  void allow() { memory.allow(range, memory.page_bytes()); }
  void unmap() { memory.unmap(range, memory.page_bytes()), mapped = false; }

  cuda::VirtualMemory memory;
  std::byte* range;
  cuda::PhysicalPage physical;
  bool created = false, mapped = false;
};

/// The resources of a call. They are made before the kernel starts, and freed after it ends.
struct Bench {
  explicit Bench(int of) : ordinal(of) {
    check(cudaHostAlloc(&pinned, kSmall, cudaHostAllocDefault), "cudaHostAlloc");
    check(cudaMalloc(&device, kSmall), "cudaMalloc");
  }
  ~Bench() {
    quietly(cudaFreeHost(pinned));
    quietly(cudaFree(device));
    quietly(cudaFree(extra));
    quietly(cudaFreeHost(extra_pinned));
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  int ordinal;
  cuda::UniqueStream other = make_stream();
  cuda::UniqueEvent event = make_event();
  std::vector<char> pageable = std::vector<char>(kSmall);
  void *pinned = nullptr, *device = nullptr, *extra = nullptr, *extra_pinned = nullptr;
  std::unique_ptr<Page> page;
};

struct Call {
  const char* name;
  void (*before)(Bench&);
  void (*make)(Bench&);
};

void nothing_before(Bench&) {}

void page_before(Bench& b) { b.page = std::make_unique<Page>(b.ordinal); }

void created_before(Bench& b) {
  page_before(b);
  b.page->create();
}

void mapped_before(Bench& b) {
  created_before(b);
  b.page->map();
  b.page->allow();
}

void pool_before(Bench& b) {
  check(cudaMallocAsync(&b.extra, kSmall, b.other.get()), "cudaMallocAsync");
  check(cudaFreeAsync(std::exchange(b.extra, nullptr), b.other.get()), "cudaFreeAsync");
  check(cudaStreamSynchronize(b.other.get()), "cudaStreamSynchronize");
}

constexpr Call kCalls[] = {
    {"cudaMalloc, 2 MiB", nothing_before,
     [](Bench& b) { check(cudaMalloc(&b.extra, kSmall), "cudaMalloc"); }},
    {"cudaMalloc, 1 GiB", nothing_before,
     [](Bench& b) { check(cudaMalloc(&b.extra, kLarge), "cudaMalloc"); }},
    {"cudaFree, 2 MiB", [](Bench& b) { check(cudaMalloc(&b.extra, kSmall), "cudaMalloc"); },
     [](Bench& b) { check(cudaFree(std::exchange(b.extra, nullptr)), "cudaFree"); }},
    {"cudaFree, 1 GiB", [](Bench& b) { check(cudaMalloc(&b.extra, kLarge), "cudaMalloc"); },
     [](Bench& b) { check(cudaFree(std::exchange(b.extra, nullptr)), "cudaFree"); }},
    {"cudaHostAlloc, 2 MiB", nothing_before,
     [](Bench& b) { check(cudaHostAlloc(&b.extra_pinned, kSmall, 0), "cudaHostAlloc"); }},
    {"cudaFreeHost, 2 MiB",
     [](Bench& b) { check(cudaHostAlloc(&b.extra_pinned, kSmall, 0), "cudaHostAlloc"); },
     [](Bench& b) { check(cudaFreeHost(std::exchange(b.extra_pinned, nullptr)), "cudaFreeHost"); }},
    {"cudaMallocAsync on another stream, from what the pool has", pool_before,
     [](Bench& b) { check(cudaMallocAsync(&b.extra, kSmall, b.other.get()), "cudaMallocAsync"); }},
    {"cudaMallocAsync on another stream, 1 GiB", nothing_before,
     [](Bench& b) { check(cudaMallocAsync(&b.extra, kLarge, b.other.get()), "cudaMallocAsync"); }},
    {"cudaFreeAsync on another stream",
     [](Bench& b) { check(cudaMallocAsync(&b.extra, kSmall, b.other.get()), "cudaMallocAsync"); },
     [](Bench& b) {
       check(cudaFreeAsync(std::exchange(b.extra, nullptr), b.other.get()), "cudaFreeAsync");
     }},
    {"cudaMemPoolTrimTo", pool_before,
     [](Bench& b) {
       cudaMemPool_t pool = nullptr;
       check(cudaDeviceGetDefaultMemPool(&pool, b.ordinal), "cudaDeviceGetDefaultMemPool");
       check(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
     }},
    {"cuMemAddressReserve", nothing_before, page_before},
    {"cuMemAddressFree", page_before, [](Bench& b) { b.page.reset(); }},
    {"cuMemCreate", page_before, [](Bench& b) { b.page->create(); }},
    {"cuMemMap", created_before, [](Bench& b) { b.page->map(); }},
    {"cuMemSetAccess",
     [](Bench& b) {
       created_before(b);
       b.page->map();
     },
     [](Bench& b) { b.page->allow(); }},
    {"cuMemUnmap", mapped_before, [](Bench& b) { b.page->unmap(); }},
    {"cuMemRelease", created_before, [](Bench& b) { b.page->release(); }},
    {"cuMemRelease of a page that was unmapped",
     [](Bench& b) {
       mapped_before(b);
       b.page->unmap();
     },
     [](Bench& b) { b.page->release(); }},
    {"cudaStreamCreateWithFlags", nothing_before,
     [](Bench&) {
       static std::vector<cuda::UniqueStream> kept;
       kept.push_back(make_stream());
     }},
    {"cudaStreamDestroy of an idle stream", nothing_before, [](Bench& b) { b.other.reset(); }},
    {"cudaEventCreateWithFlags", nothing_before, [](Bench& b) { b.event = make_event(); }},
    {"cudaMemGetInfo", nothing_before,
     [](Bench&) {
       std::size_t free = 0, total = 0;
       check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
     }},
    {"copy to the device on another stream, pinned", nothing_before,
     [](Bench& b) {
       check(cudaMemcpyAsync(b.device, b.pinned, kSmall, cudaMemcpyHostToDevice, b.other.get()),
             "cudaMemcpyAsync");
     }},
    {"copy to the device on another stream, pageable", nothing_before,
     [](Bench& b) {
       check(cudaMemcpyAsync(b.device, b.pageable.data(), kSmall, cudaMemcpyHostToDevice,
                             b.other.get()),
             "cudaMemcpyAsync");
     }},
    {"copy from the device on another stream, pageable", nothing_before,
     [](Bench& b) {
       check(cudaMemcpyAsync(b.pageable.data(), b.device, kSmall, cudaMemcpyDeviceToHost,
                             b.other.get()),
             "cudaMemcpyAsync");
     }},
};

/// The least time of three calls, because other activity may slow down a call.
double least_microseconds(const Call& call, int ordinal) {
  double least = 1e18;
  for (int i = 0; i < 3; ++i) {
    Bench bench{ordinal};
    const auto held = make_stream();
    call.before(bench);
    settle();
    enqueue_hold(held.get(), kHeld);
    least = std::min(least, microseconds_of([&] { call.make(bench); }));
    settle();
  }
  return least;
}

Answer waits_for_kernel(int ordinal) {
  const double threshold = std::chrono::duration<double, std::micro>(kHeld).count() / 2;
  Answer answer;
  std::string waits, does_not;
  for (const Call& call : kCalls) {
    double taken = 0;
    try {
      taken = least_microseconds(call, ordinal);
    } catch (const DeviceError& error) {
      settle();
      answer.data.push_back({{"call", call.name}, {"failed", error.what()}});
      continue;
    }
    std::string& list = taken > threshold ? waits : does_not;
    list += fmt::format("{}{} ({:.0f} us)", list.empty() ? "" : ", ", call.name, taken);
    answer.data.push_back(
        {{"call", call.name}, {"waits", taken > threshold}, {"microseconds", taken}});
  }
  answer.text = fmt::format("wait: {}. Do not: {}", waits.empty() ? "none" : waits,
                            does_not.empty() ? "none" : does_not);
  return answer;
}

Answer launch_queue(int) {
  constexpr int kMost = 20000;
  const auto stream = make_stream();
  int launched = 0;
  {
    KernelGate gate{stream.get()};
    // The gate opens by itself after five seconds, so that a blocked call continues.
    while (launched < kMost && microseconds_of([&] { enqueue_nothing(stream.get()); }) < 100'000) {
      ++launched;
    }
    gate.open();
  }
  settle();
  return {launched == kMost ? fmt::format("not by {}", kMost)
                            : fmt::format("the launch after {}", launched),
          {{"launches", launched}, {"blocked", launched < kMost}}};
}

constexpr Fact kBlockingFacts[] = {
    {"waits-for-a-kernel", "Which calls wait for a kernel that runs on another stream?",
     waits_for_kernel},
    {"launch-queue-depth", "Which launch on a held stream is the first to block the host?",
     launch_queue},
};

}  // namespace

std::span<const Fact> blocking_facts() { return kBlockingFacts; }

}  // namespace millrace::facts
