#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "device/cuda/error.hpp"
#include "device/cuda/occupation.hpp"
#include "millrace/device/occupy.hpp"

namespace millrace::cuda {
namespace {

constexpr unsigned kSlots = 1U << 16U;  // more than the launches that can be pending at once
constexpr int kThreads = 1024;
constexpr int kSmallThreads = 32;
constexpr int kWordsInFlight = 4;  // words of 16 bytes for each thread
constexpr unsigned kLongestSleep = 500;

// The blocks of a launch agree here on the time when it began. The last block resets the slot.
struct Slot {
  unsigned long long start;
  unsigned left;
};
__device__ Slot slots[kSlots];

__device__ unsigned long long now() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__device__ void wait_until(unsigned long long deadline) {
  for (unsigned long long t = now(); t < deadline; t = now()) {
    __nanosleep(static_cast<unsigned>(min((deadline - t) / 2, 0ULL + kLongestSleep)));
  }
}

__device__ void touch(unsigned char* byte, bool reads, bool writes) {
  volatile unsigned char* const there = byte;
  unsigned char value = 0;
  if (reads) value = *there;
  if (writes) *there = value;
}

__device__ void touch_ends(const Occupation& occupation) {
  if (blockIdx.x != 0) return;
  for (unsigned i = threadIdx.x; i < occupation.view_count; i += blockDim.x) {
    const SweptView& view = occupation.views[i];
    if (view.bytes == 0) continue;
    touch(view.address, view.reads, view.writes);
    touch(view.address + view.bytes - 1, view.reads, view.writes);
  }
}

__device__ void sweep(const SweptView& view, unsigned long long deadline) {
  constexpr std::uintptr_t word = sizeof(uint4);
  const auto begin = reinterpret_cast<std::uintptr_t>(view.address);
  const std::uintptr_t first = (begin + word - 1) / word, last = (begin + view.swept) / word;
  if (last <= first) return;
  uint4* const words = reinterpret_cast<uint4*>(first * word);
  const unsigned long long count = last - first;
  const unsigned long long stride = 1ULL * gridDim.x * blockDim.x;
  for (unsigned long long i = 1ULL * blockIdx.x * blockDim.x + threadIdx.x; i < count;
       i += kWordsInFlight * stride) {
    if (now() >= deadline) return;
    uint4 value[kWordsInFlight] = {};
#pragma unroll
    for (int k = 0; k < kWordsInFlight; ++k) {
      if (view.reads && i + k * stride < count) value[k] = __ldcs(words + i + k * stride);
    }
#pragma unroll
    for (int k = 0; k < kWordsInFlight; ++k) {
      // Keeps the compiler from removing loads whose values are not used.
      asm volatile("" ::"r"(value[k].x), "r"(value[k].y), "r"(value[k].z), "r"(value[k].w));
      if (view.writes && i + k * stride < count) __stcs(words + i + k * stride, value[k]);
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    occupy_kernel(const __grid_constant__ Occupation occupation) {
  Slot& slot = slots[occupation.slot];
  __shared__ unsigned long long start;
  if (threadIdx.x == 0) {
    const unsigned long long mine = now();
    const unsigned long long first = atomicCAS(&slot.start, 0ULL, mine);
    start = first == 0 ? mine : first;
  }
  __syncthreads();
  const unsigned long long deadline = start + occupation.shared;

  touch_ends(occupation);
  for (unsigned i = 0; i < occupation.view_count; ++i) sweep(occupation.views[i], deadline);

  if (threadIdx.x != 0) return;
  wait_until(deadline + (blockIdx.x == 0 ? occupation.alone : 0));
  if (atomicInc(&slot.left, gridDim.x - 1) == gridDim.x - 1) atomicExch(&slot.start, 0ULL);
}

const void* kernel() { return reinterpret_cast<const void*>(&occupy_kernel); }

double traffic(const View& view) {
  return static_cast<double>(view.bytes) * (view.access == Access::read_write ? 2 : 1);
}

double seconds_of(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

unsigned long long nanoseconds(double seconds) {
  return static_cast<unsigned long long>(std::ceil(seconds * 1e9));
}

void launch(Occupation& occupation, const Machine& machine, cudaStream_t stream) {
  static std::atomic<unsigned> launches{0};
  occupation.slot = launches.fetch_add(1, std::memory_order_relaxed) % kSlots;
  const bool whole_machine = occupation.shared > 0;
  const dim3 blocks(whole_machine ? machine.multiprocessors : 1);
  const dim3 threads(whole_machine ? kThreads : kSmallThreads);
  const std::size_t shared_memory = whole_machine ? machine.exclusive_bytes : 0;
  void* arguments[] = {&occupation};
  check(cudaLaunchKernel(kernel(), blocks, threads, arguments, shared_memory, stream),
        "cudaLaunchKernel", "occupy", blocks.x, threads.x, stream);
}

int attribute(cudaDeviceAttr what, int ordinal) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, what, ordinal), "cudaDeviceGetAttribute", what, ordinal);
  return value;
}

}  // namespace

Machine prepare_occupation(int ordinal, double flops, double memory_bandwidth) {
  Machine machine{flops, memory_bandwidth, attribute(cudaDevAttrMultiProcessorCount, ordinal)};
  const int of_multiprocessor = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, ordinal);
  const int of_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal);
  machine.exclusive_bytes = std::min(of_block, of_multiprocessor / 2 + 1024);
  check(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             machine.exclusive_bytes),
        "cudaFuncSetAttribute", "occupy", "MaxDynamicSharedMemorySize", machine.exclusive_bytes);
  check(cudaFuncSetAttribute(kernel(), cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        "cudaFuncSetAttribute", "occupy", "PreferredSharedMemoryCarveout");
  return machine;
}

std::vector<int> architectures() {
  std::vector<int> list;
  for (const int architecture : {__CUDA_ARCH_LIST__}) list.push_back(architecture / 10);
  return list;
}

int architecture_here() {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel()), "cudaFuncGetAttributes", "occupy");
  return attributes.binaryVersion;
}

void occupy(const Operation& operation, const Machine& machine, cudaStream_t stream) {
  const Cost& cost = operation.cost;
  const double seconds = std::max(seconds_of(cost.flops, machine.flops),
                                  seconds_of(cost.bytes, machine.memory_bandwidth));
  double all_traffic = 0;
  for (const View& view : operation.views) all_traffic += traffic(view);
  const double swept =
      all_traffic > 0
          ? std::min(1.0, (cost.bytes + cost.host_read + cost.host_written) / all_traffic)
          : 0;

  const std::size_t views = operation.views.size();
  for (std::size_t next = 0;;) {
    const std::size_t end = std::min(views, next + kViewsOfALaunch);
    const double share = views == 0 ? 1 : static_cast<double>(end - next) / views;
    Occupation occupation{};
    for (; next < end; ++next) {
      const View& view = operation.views[next];
      occupation.views[occupation.view_count++] = {
          static_cast<unsigned char*>(view.address), view.bytes,
          static_cast<unsigned long long>(swept * static_cast<double>(view.bytes)),
          view.access != Access::write, view.access != Access::read};
    }
    occupation.shared = nanoseconds(seconds * share);
    occupation.alone = end == views ? std::max<Nanoseconds::rep>(0, cost.fixed.count()) : 0;
    launch(occupation, machine, stream);
    if (end == views) return;
  }
}

}  // namespace millrace::cuda
