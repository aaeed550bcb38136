// cub::CachingDeviceAllocator, once on the virtual runtime and once on an empty runtime. The
// difference is the cost of the virtual runtime in a benchmark of allocators.
// bench/virtual_cuda/cub.sh compares the two.

// CUB's headers use the launch syntax and a few builtins that only nvcc provides.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cub/util_allocator.cuh>
#include <random>
#include <vector>

namespace {

constexpr int kStreams = 4;
constexpr std::size_t kLive = 64;

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "a call failed: %d\n", static_cast<int>(error));
  std::exit(1);
}

double cpu_nanoseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/** Frees a random live block and allocates another, in a random bin and for a random stream. */
double pairs(std::size_t count) {
  cub::CachingDeviceAllocator allocator{2, 9, 20};  // bins of 512 bytes to 1 MiB
  std::vector<cudaStream_t> streams(kStreams);
  for (cudaStream_t& stream : streams)
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::mt19937_64 random{1};
  std::vector<void*> live(kLive);
  const auto allocate = [&](void*& block) {
    const std::size_t bytes = std::size_t{512} << (random() % 12);
    require(allocator.DeviceAllocate(&block, bytes, streams[random() % kStreams]));
  };
  const auto replace = [&] {
    void*& block = live[random() % kLive];
    require(allocator.DeviceFree(block));
    allocate(block);
  };
  for (void*& block : live) allocate(block);
  for (std::size_t i = 0; i < count / 4; ++i) replace();  // fills CUB's cache
  const double begin = cpu_nanoseconds();
  for (std::size_t i = 0; i < count; ++i) replace();
  const double time = cpu_nanoseconds() - begin;
  for (void* const block : live) require(allocator.DeviceFree(block));
  require(allocator.FreeAllCached());
  for (const cudaStream_t stream : streams) require(cudaStreamDestroy(stream));
  return time / static_cast<double>(count);
}

}  // namespace

/** Prints the CPU time of a pair (free and allocation) in nanoseconds. */
int main(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
  std::printf("%.1f\n", pairs(count));
  return 0;
}
