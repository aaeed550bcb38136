// Batches are copied on one stream, and Thrust sorts them and takes their maximum on another.
// Vectors, batches and Thrust's temporary storage share one memory.
#include <cuda_runtime_api.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "millrace/interop/cuda_thrust_adaptor.hpp"

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

}  // namespace

int main() {
  constexpr int kIds = 4 << 20;
  constexpr int kSteps = 10;
  millrace::DeviceMemory& memory = millrace::default_memory(0);
  const cudaStream_t copy = make_stream(), main = make_stream();
  int* host = nullptr;
  check(cudaMallocHost(&host, kIds * sizeof(int)));
  for (int i = 0; i < kIds; ++i) host[i] = i % 1000;
  cudaEvent_t copied = nullptr;
  check(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));

  millrace::device_vector<int> most(kSteps);  // as thrust::device_vector, on the default stream
  for (int step = 0; step < kSteps; ++step) {
    millrace::Array<int> batch = memory.array<int>(kIds, copy);
    check(cudaMemcpyAsync(batch.data(), host, kIds * sizeof(int), cudaMemcpyHostToDevice, copy));
    check(cudaEventRecord(copied, copy));
    check(cudaStreamWaitEvent(main, copied, 0));

    const thrust::device_ptr<int> ids{batch.data()};
    thrust::sort(millrace::par_nosync(memory, main), ids, ids + kIds);  // only enqueues
    most[step] = thrust::reduce(millrace::par(memory, main), ids, ids + kIds, 0,
                                thrust::maximum<int>{});  // waits for its result
    batch.buffer().reset(millrace::plain_stream(main));   // main used it last
  }
  const std::vector<int> found(most.begin(), most.end());
  std::printf("largest id %d, live at most %zu MiB, reserved %zu MiB\n", found.back(),
              memory.statistics().bytes.allocated.peak >> 20,
              memory.statistics().bytes.reserved.peak >> 20);
}
