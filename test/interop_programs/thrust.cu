// Thrust and CUB on Millrace's memory. On a GPU, kernels compute. On the virtual CUDA runtime they
// only take their turn, so there the test checks only copies and where memory comes from.

#include <thrust/fill.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>

#include <cstdio>
#include <cstdlib>
#include <cub/device/device_reduce.cuh>
#include <random>
#include <vector>

#include "millrace/interop/cuda_cub_adaptor.hpp"
#include "millrace/interop/cuda_thrust_adaptor.hpp"
#include "millrace/virtual_cuda.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

void check(cudaError_t error) { require(error == cudaSuccess, cudaGetErrorString(error)); }

/** Returns whether kernels compute, as they do on a GPU. */
bool computes() {
  const void* table = nullptr;
  const cudaUUID_t id = MILLRACE_VIRTUAL_CUDA_ID;
  const bool is_virtual = cudaGetExportTable(&table, &id) == cudaSuccess;
  static_cast<void>(cudaGetLastError());
  return !is_virtual;
}

std::size_t allocated(millrace::DeviceMemory& memory) {
  return memory.statistics().bytes.allocated.current;
}
std::size_t reserved(millrace::DeviceMemory& memory) {
  return memory.statistics().bytes.reserved.current;
}

using Vector = millrace::device_vector<int>;

std::vector<int> on_host(const Vector& vector) {
  std::vector<int> values(vector.size());
  thrust::copy(vector.begin(), vector.end(), values.begin());
  return values;
}

/** Makes, copies, assigns, grows and destroys vectors at random. Each must keep its values. */
void vectors_keep_their_values(millrace::DeviceMemory& memory, unsigned seed) {
  std::mt19937 random{seed};
  struct Kept {
    Vector device;
    std::vector<int> host;
  };
  std::vector<Kept> all;
  const auto any = [&]() -> Kept& { return all[random() % all.size()]; };
  for (int step = 0; step < 400; ++step) {
    const unsigned action = all.size() < 4 ? 0 : random() % 6;
    if (action == 0) {
      std::vector<int> values(1 + random() % 60'000);
      for (int& value : values) value = static_cast<int>(random());
      all.push_back({Vector(values.begin(), values.end(), memory), values});
    } else if (action == 1) {
      const Kept& from = any();
      all.push_back({from.device, from.host});
    } else if (action == 2) {
      any() = any();
    } else if (action == 3) {  // grows: the elements move to other memory
      Kept& grown = any();
      const std::vector<int> more(1 + random() % 1000, step);
      grown.device.insert(grown.device.end(), more.begin(), more.end());
      grown.host.insert(grown.host.end(), more.begin(), more.end());
    } else if (action == 4) {
      Kept& written = any();
      const std::size_t at = random() % written.host.size();
      written.device[at] = written.host[at] = step;
    } else {
      std::swap(any(), all.back());
      all.pop_back();
    }
    const Kept& seen = any();
    require(on_host(seen.device) == seen.host, "a vector lost its values");
  }
}

void a_vector_frees_with_the_memory_that_allocated(millrace::DeviceMemory& memory) {
  millrace::DeviceMemory other{0};
  const std::vector<int> values(1000, 3);
  {
    Vector here(values.begin(), values.end(), memory);
    Vector there(values.begin(), values.end(), other);
    const std::size_t of_one = allocated(other);
    there = here;  // a copy: `there` keeps its memory
    require(allocated(other) == of_one && allocated(memory) == of_one, "a copy took the allocator");
    there = std::move(here);  // a move takes the block
    require(allocated(other) == 0 && allocated(memory) == of_one, "a move left the block behind");
    require(on_host(there) == values, "a moved vector lost its values");
  }
  require(allocated(memory) == 0, "a vector left memory behind");
  // A vector without arguments uses the memory of the current GPU, which a scope may replace.
  const millrace::DefaultMemoryScope scope{other};
  const Vector by_default(10);
  require(allocated(other) != 0, "a vector without arguments does not use the default memory");
}

millrace::Gauge allocated_on(millrace::DeviceMemory& memory, const char* stream) {
  for (const auto& share : memory.statistics().streams)
    if (share.name == stream) return share.allocated;
  return {};
}

/** Temporary storage comes from the memory in stream order, so the second call does not grow it. */
void algorithms_use_the_memory(millrace::DeviceMemory& memory) {
  constexpr int kCount = 1 << 20;
  constexpr std::size_t kBytes = kCount * sizeof(int);
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  memory.attach(stream, {.name = "work"});
  {
    const millrace::Array<int> array = memory.array<int>(kCount, stream);
    const thrust::device_ptr<int> values{array.data()};
    const auto policy = millrace::par_nosync(memory, stream);
    thrust::fill(policy, values, values + kCount, 1);
    require(allocated_on(memory, "work").peak == kBytes, "filling needs no storage");
    thrust::inclusive_scan(policy, values, values + kCount, values);
    require(allocated_on(memory, "work").peak > kBytes, "the scan has other storage");
    require(allocated_on(memory, "work").current == kBytes, "the scan kept its storage");
    const std::size_t held = reserved(memory);
    for (int i = 0; i < 20; ++i) {
      static_cast<void>(thrust::reduce(millrace::par(memory, stream), values, values + kCount));
      thrust::inclusive_scan(policy, values, values + kCount, values);
    }
    require(reserved(memory) == held, "storage in the order of its stream was not used again");
    thrust::sequence(policy, values, values + kCount);
    const int sum = thrust::reduce(millrace::par(memory, stream), values, values + 1000);
    require(!computes() || sum == 499'500, "a wrong sum");
  }
  check(cudaStreamSynchronize(stream));
  memory.detach(stream);
  check(cudaStreamDestroy(stream));
}

#if CCCL_VERSION >= 3001000
/** Makes one CUB call on the stream, with temporary storage in stream order. */
void cub_takes_the_environment(millrace::DeviceMemory& memory) {
  constexpr int kCount = 1 << 20;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  memory.attach(stream, {.name = "cub"});
  {
    const millrace::Array<int> array = memory.array<int>(kCount + 1, stream);
    int* const values = array.data();
    const std::size_t own = allocated_on(memory, "cub").peak;
    check(cudaMemsetAsync(values, 0, kCount * sizeof(int), stream));
    check(cub::DeviceReduce::Sum(values, values + kCount, kCount,
                                 millrace::environment(memory, stream)));
    require(allocated_on(memory, "cub").peak > own, "CUB has other storage");
    require(allocated_on(memory, "cub").current == own, "CUB kept its storage");
    int sum = -1;
    check(cudaMemcpyAsync(&sum, values + kCount, sizeof sum, cudaMemcpyDeviceToHost, stream));
    check(cudaStreamSynchronize(stream));
    require(!computes() || sum == 0, "a wrong sum");
  }
  memory.detach(stream);
  check(cudaStreamDestroy(stream));
}
#endif

}  // namespace

int main() {
  millrace::DeviceMemory memory{0};
  for (unsigned seed = 1; seed <= 3; ++seed) vectors_keep_their_values(memory, seed);
  a_vector_frees_with_the_memory_that_allocated(memory);
  algorithms_use_the_memory(memory);
#if CCCL_VERSION >= 3001000
  cub_takes_the_environment(memory);
#endif
  require(allocated(memory) == 0, "memory was left");
}
