// A server whose threads each have a stream: memory that one request freed serves the next, on
// whatever thread and stream that is.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "millrace/interop/device_memory.hpp"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

/** One of the server's threads, with its stream. */
class Worker {
 public:
  explicit Worker(millrace::DeviceMemory& memory) : memory_(memory) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaHostAlloc(reinterpret_cast<void**>(&answer_), kMiB, cudaHostAllocDefault));
  }

  /** @return whether the answer is that of this request */
  bool serve(std::size_t bytes, unsigned char value) {
    millrace::Buffer input = memory_.buffer(bytes, stream_);
    millrace::Buffer output = memory_.buffer(kMiB, stream_);
    check(cudaMemsetAsync(input.data(), value, bytes, stream_));
    check(cudaMemcpyAsync(output.data(), input.data(), kMiB, cudaMemcpyDeviceToDevice, stream_));
    check(cudaMemcpyAsync(answer_, output.data(), kMiB, cudaMemcpyDeviceToHost, stream_));
    check(cudaStreamSynchronize(stream_));
    input.reset(
        millrace::plain_stream(stream_));  // freed by name: other threads can have it at once
    output.reset(millrace::plain_stream(stream_));
    return std::all_of(answer_, answer_ + kMiB, [=](unsigned char byte) { return byte == value; });
  }

 private:
  millrace::DeviceMemory& memory_;
  cudaStream_t stream_ = nullptr;
  unsigned char* answer_ = nullptr;
};

}  // namespace

int main() {
  constexpr unsigned kThreads = 8;
  constexpr int kRounds = 4;
  millrace::DeviceMemory memory{0};
  std::atomic<unsigned> wrong{0};
  std::atomic<unsigned> turn{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Worker worker{memory};
      for (int round = 0; round < kRounds; ++round) {
        while (turn != round * kThreads + i) std::this_thread::yield();
        if (!worker.serve(64 * kMiB, static_cast<unsigned char>(1 + i))) ++wrong;  // a large one
        ++turn;
        for (int k = 0; k < 10; ++k) {  // small ones, of all threads at once
          if (!worker.serve(2 * kMiB, static_cast<unsigned char>(100 + i))) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const millrace::MemoryStatistics statistics = memory.statistics();
  std::printf("%u answers wrong; 8 threads had 64 MiB in turn, %zu MiB reserved\n", wrong.load(),
              statistics.bytes.reserved.peak / kMiB);
  return wrong == 0 && statistics.bytes.reserved.peak < kThreads * 64 * kMiB ? 0 : 1;
}
