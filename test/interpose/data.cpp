// Programs whose results would be wrong if memory were reused too early.

#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <random>
#include <thread>
#include <vector>

#include "test/interpose/cuda.hpp"

namespace program {
namespace {

struct Block {
  unsigned char* address;
  std::size_t bytes;
  unsigned char value;
  cudaStream_t owner;  ///< the stream that filled it
  bool for_all;        ///< from cudaMalloc
};

struct Expected {
  const unsigned char* found;
  std::size_t bytes;
  unsigned char value;
};

/// Blocks are filled on one stream and read on others. Events order the accesses.
class Random {
 public:
  explicit Random(unsigned seed) : random_(seed) {
    for (cudaStream_t& stream : streams_) stream = make_stream();
    check(cudaHostAlloc(reinterpret_cast<void**>(&host_), kHostBytes, 0), "cudaHostAlloc");
  }

  bool run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!blocks_.empty()) free_one();
    settle();
    return right_;
  }

 private:
  static constexpr std::size_t kHostBytes = 32 * kMiB;

  unsigned draw(std::size_t below) { return static_cast<unsigned>(random_() % below); }
  cudaStream_t any_stream() { return streams_[draw(streams_.size())]; }

  void step() {
    const unsigned what = draw(40);
    if (what < 16 || blocks_.empty()) return fill();
    if (what < 24) return read(blocks_[draw(blocks_.size())]);
    if (what < 36) return free_one();
    if (what < 38) return renew_stream();
    if (what == 38) return settle();
    check(cudaStreamSynchronize(any_stream()), "cudaStreamSynchronize");
  }

  void fill() {
    const std::size_t bytes = draw(2) == 0 ? 1 + draw(5000) : 4096 * (1 + draw(512));
    const cudaStream_t stream = any_stream();
    const bool for_all = draw(4) == 0;
    const Block block{for_all ? allocate(bytes) : allocate(bytes, stream), bytes,
                      static_cast<unsigned char>(1 + draw(255)), stream, for_all};
    check(cudaMemsetAsync(block.address, block.value, bytes, stream), "cudaMemsetAsync");
    blocks_.push_back(block);
  }

  static void order(cudaStream_t before, cudaStream_t after) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    check(cudaEventRecord(event, before), "cudaEventRecord");
    check(cudaStreamWaitEvent(after, event, 0), "cudaStreamWaitEvent");
    check(cudaEventDestroy(event), "cudaEventDestroy");
  }

  void read(const Block& block) {
    if (used_ + block.bytes > kHostBytes) settle();
    const cudaStream_t reader = any_stream();
    order(block.owner, reader);
    check(
        cudaMemcpyAsync(host_ + used_, block.address, block.bytes, cudaMemcpyDeviceToHost, reader),
        "cudaMemcpyAsync");
    expected_.push_back({host_ + used_, block.bytes, block.value});
    used_ += block.bytes;
    if (reader != block.owner) order(reader, block.owner);
  }

  void free_one() {
    const unsigned place = draw(blocks_.size());
    const Block block = blocks_[place];
    blocks_.erase(blocks_.begin() + place);
    const cudaStream_t other = any_stream();
    if (block.for_all) return check(cudaFree(block.address), "cudaFree");
    if (draw(2) == 0) return check(cudaFreeAsync(block.address, block.owner), "cudaFreeAsync");
    order(block.owner, other);
    check(cudaFreeAsync(block.address, other), "cudaFreeAsync");
  }

  void renew_stream() {
    cudaStream_t& stream = streams_[draw(streams_.size())];
    for (const Block& block : blocks_) {
      if (block.owner == stream) return;
    }
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    stream = make_stream();
  }

  void settle() {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (const Expected& each : expected_) {
      right_ = right_ && std::all_of(each.found, each.found + each.bytes,
                                     [&](unsigned char byte) { return byte == each.value; });
    }
    expected_.clear();
    used_ = 0;
  }

  std::mt19937_64 random_;
  std::array<cudaStream_t, 4> streams_{};
  unsigned char* host_ = nullptr;
  std::size_t used_ = 0;
  std::vector<Block> blocks_;
  std::vector<Expected> expected_;
  bool right_ = true;
};

}  // namespace

int random_data(unsigned seed) { return Random{seed}.run(600) ? 0 : 1; }

/// Four such programs at once, each with its own streams.
int random_data_in_threads() {
  std::array<std::thread, 4> threads;
  std::array<bool, 4> right{};
  for (unsigned i = 0; i < threads.size(); ++i)
    threads[i] = std::thread{[&right, i] { right[i] = Random{100 + i}.run(300); }};
  for (std::thread& thread : threads) thread.join();
  return std::count(right.begin(), right.end(), true) == 4 ? 0 : 1;
}

/// Memory of cudaMalloc is written on one stream, freed, and allocated again for another stream.
int everywhere() {
  constexpr std::size_t kBytes = 8 * kMiB;
  const cudaStream_t first = make_stream(), second = make_stream();
  unsigned char* host = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&host), kBytes, 0), "cudaHostAlloc");
  for (int round = 0; round < 20; ++round) {
    unsigned char* const before = allocate(kBytes);
    check(cudaMemsetAsync(before, 1, kBytes, first), "cudaMemsetAsync");
    check(cudaMemcpyAsync(host, before, kBytes, cudaMemcpyDeviceToHost, first), "cudaMemcpyAsync");
    check(cudaFree(before), "cudaFree");
    if (host[0] != 1 || host[kBytes - 1] != 1) return 1;  // cudaFree waits for the device
    unsigned char* const after = allocate(kBytes);
    check(cudaMemsetAsync(after, 2, kBytes, second), "cudaMemsetAsync");
    check(cudaStreamSynchronize(second), "cudaStreamSynchronize");
    if (!holds(after, kBytes, 2)) return 2;
    check(cudaFree(after), "cudaFree");
    host[0] = host[kBytes - 1] = 0;
  }
  return 0;
}

/// One stream's memory serves another after the program's own event and wait: 8 MiB in all.
int reused_after_an_event() {
  constexpr std::size_t kBytes = 8 * kMiB;
  const cudaStream_t copy = make_stream(), compute = make_stream();
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  for (int step = 0; step < 10; ++step) {
    unsigned char* const batch = allocate(kBytes, copy);
    check(cudaMemsetAsync(batch, 1 + step, kBytes, copy), "cudaMemsetAsync");
    check(cudaFreeAsync(batch, copy), "cudaFreeAsync");
    check(cudaEventRecord(event, copy), "cudaEventRecord");
    check(cudaStreamWaitEvent(compute, event, 0), "cudaStreamWaitEvent");
    unsigned char* const work = allocate(kBytes, compute);
    check(cudaMemsetAsync(work, 100, kBytes, compute), "cudaMemsetAsync");
    check(cudaFreeAsync(work, compute), "cudaFreeAsync");
    check(cudaEventRecord(event, compute), "cudaEventRecord");
    check(cudaStreamWaitEvent(copy, event, 0), "cudaStreamWaitEvent");
  }
  return cudaDeviceSynchronize();
}

/// The runtime records an event on one stream, then the driver records it on an idle stream. An
/// allocator that knows only the first record reuses memory while the first stream still works.
int event_recorded_by_the_driver() {
  constexpr std::size_t kBytes = 8 * kMiB;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  auto* const record =
      reinterpret_cast<CUresult (*)(CUevent, CUstream)>(dlsym(library, "cuEventRecord"));
  if (record == nullptr) return 3;
  const cudaStream_t busy = make_stream(), idle = make_stream(), waiter = make_stream();
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  unsigned char* seen = nullptr;
  check(cudaHostAlloc(reinterpret_cast<void**>(&seen), kBytes, 0), "cudaHostAlloc");
  for (int round = 0; round < 20; ++round) {
    unsigned char* const block = allocate(kBytes, busy);
    check(cudaMemsetAsync(block, 1, kBytes, busy), "cudaMemsetAsync");
    check(cudaMemcpyAsync(seen, block, kBytes, cudaMemcpyDeviceToHost, busy), "cudaMemcpyAsync");
    check(cudaFreeAsync(block, busy), "cudaFreeAsync");
    check(cudaEventRecord(event, busy), "cudaEventRecord");
    if (record(event, idle) != CUDA_SUCCESS) return 4;
    check(cudaStreamWaitEvent(waiter, event, 0), "cudaStreamWaitEvent");
    unsigned char* const next = allocate(kBytes, waiter);
    check(cudaMemsetAsync(next, 2, kBytes, waiter), "cudaMemsetAsync");
    check(cudaStreamSynchronize(waiter), "cudaStreamSynchronize");
    check(cudaStreamSynchronize(busy), "cudaStreamSynchronize");
    if (std::any_of(seen, seen + kBytes, [](unsigned char byte) { return byte != 1; })) return 1;
    check(cudaFreeAsync(next, waiter), "cudaFreeAsync");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  return 0;
}

}  // namespace program
