// The cost of a call of the virtual CUDA runtime: docs/virtual-cuda.md. MILLRACE_VIRTUAL selects
// the schedule.

#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>

#include "abi/cuda_runtime_api.h"
#include "abi/functions.h"

namespace {

void require(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s failed: %s\n", call, cudaGetErrorString(error));
  std::exit(1);
}

/** The objects that the calls use. */
struct Objects {
  cudaStream_t stream = nullptr;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  void* device = nullptr;
  void* pinned = nullptr;

  Objects() {
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    require(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreate");
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    require(cudaMalloc(&device, 4096), "cudaMalloc");
    require(cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault), "cudaHostAlloc");
  }
  ~Objects() {
    cudaFreeHost(pinned);
    cudaFree(device);
    cudaEventDestroy(event);
    cudaStreamDestroy(other);
    cudaStreamDestroy(stream);
  }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
};

template <typename Call>
void measure(const char* name, Call call) {
  benchmark::RegisterBenchmark(name, [call](benchmark::State& state) {
    Objects objects;
    unsigned made = 0;
    for (auto step : state) {
      static_cast<void>(step);
      benchmark::DoNotOptimize(call(objects));
      // Schedules that defer work must not accumulate it.
      if (++made % 256 == 0) cudaDeviceSynchronize();
    }
  });
}

void add_calls() {
  measure("cudaGetDevice", [](Objects&) {
    int device = 0;
    return cudaGetDevice(&device);
  });
  measure("cudaGetLastError", [](Objects&) { return cudaGetLastError(); });
  measure("cudaEventRecord", [](Objects& all) { return cudaEventRecord(all.event, all.stream); });
  measure("cudaEventQuery", [](Objects& all) { return cudaEventQuery(all.event); });
  measure("cudaStreamWaitEvent",
          [](Objects& all) { return cudaStreamWaitEvent(all.other, all.event, 0); });
  measure("cudaStreamQuery", [](Objects& all) { return cudaStreamQuery(all.stream); });
  measure("cudaStreamSynchronize", [](Objects& all) { return cudaStreamSynchronize(all.stream); });
  measure("cudaMemcpyAsync, 64 bytes", [](Objects& all) {
    return cudaMemcpyAsync(all.device, all.pinned, 64, cudaMemcpyHostToDevice, all.stream);
  });
  measure("cudaMemsetAsync, 64 bytes",
          [](Objects& all) { return cudaMemsetAsync(all.device, 1, 64, all.stream); });
  measure("cudaEventCreate and Destroy", [](Objects&) {
    cudaEvent_t event = nullptr;
    require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return cudaEventDestroy(event);
  });
  measure("cudaMallocAsync and FreeAsync, 4 KiB", [](Objects& all) {
    void* block = nullptr;
    require(cudaMallocAsync(&block, 4096, all.stream), "cudaMallocAsync");
    return cudaFreeAsync(block, all.stream);
  });
  measure("cudaMalloc and Free, 4 KiB", [](Objects&) {
    void* block = nullptr;
    require(cudaMalloc(&block, 4096), "cudaMalloc");
    return cudaFree(block);
  });
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add_calls();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
