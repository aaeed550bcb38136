#include <stdexcept>
#include <tuple>

#include "cuda_facts/kernels.hpp"
#include "device/cuda/error.hpp"

namespace millrace::facts {
namespace {

using cuda::check;

constexpr int kReadings = 4096;
constexpr int kGates = 4096;
constexpr unsigned long long kLongestGate = 5'000'000'000;

__device__ unsigned long long now() {
  unsigned long long nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void nothing() {}

__global__ void hold(unsigned long long nanoseconds) {
  const unsigned long long start = now();
  while (now() - start < nanoseconds) __nanosleep(500);
}

__global__ void hold_until(const volatile int* flag) {
  const unsigned long long start = now();
  while (*flag == 0 && now() - start < kLongestGate) __nanosleep(500);
}

__global__ void read_timer(unsigned long long* readings) {
  for (int i = 0; i < kReadings; ++i) readings[i] = now();
}

template <typename... Parameters, typename... Arguments>
void enqueue(void (*kernel)(Parameters...), cudaStream_t stream, Arguments... arguments) {
  std::tuple<Parameters...> values{arguments...};
  std::apply(
      [&](auto&... each) {
        void* pointers[] = {&each..., nullptr};
        check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), pointers, 0,
                               stream),
              "cudaLaunchKernel", stream);
      },
      values);
}

// The flags are never freed, because freeing pinned memory may wait for kernels that read it.
volatile int* next_flag() {
  static int* const flags = [] {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, kGates * sizeof(int), cudaHostAllocDefault), "cudaHostAlloc");
    return static_cast<int*>(memory);
  }();
  static int used = 0;
  if (used == kGates) throw std::runtime_error{"too many gates"};
  flags[used] = 0;
  return &flags[used++];
}

}  // namespace

void load_kernels() {
  cudaFuncAttributes attributes{};
  for (const void* kernel :
       {reinterpret_cast<const void*>(nothing), reinterpret_cast<const void*>(hold),
        reinterpret_cast<const void*>(hold_until), reinterpret_cast<const void*>(read_timer)}) {
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  }
}

void enqueue_nothing(cudaStream_t stream) { enqueue(nothing, stream); }

void enqueue_hold(cudaStream_t stream, Nanoseconds time) {
  enqueue(hold, stream, static_cast<unsigned long long>(time.count()));
}

KernelGate::KernelGate(cudaStream_t stream) : flag_(next_flag()) {
  enqueue(hold_until, stream, static_cast<const volatile int*>(flag_));
}

void KernelGate::open() { *flag_ = 1; }

std::vector<std::uint64_t> timer_readings() {
  std::vector<std::uint64_t> readings(kReadings);
  void* memory = nullptr;
  check(cudaMalloc(&memory, kReadings * sizeof(unsigned long long)), "cudaMalloc");
  enqueue(read_timer, cudaStreamLegacy, static_cast<unsigned long long*>(memory));
  check(cudaMemcpy(readings.data(), memory, readings.size() * sizeof(std::uint64_t),
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  check(cudaFree(memory), "cudaFree");
  return readings;
}

}  // namespace millrace::facts
