// Programs with and without an error in their use of Millrace's memory, under the checker of the
// virtual CUDA runtime. MILLRACE_DEBUG=tools reports the allocated memory to the checker.

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "millrace/interop/device_memory.hpp"

namespace {

constexpr std::size_t kBytes = 1 << 20;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::_Exit(1);
}

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

/** A side stream reads a batch that main frees and allocates again. */
void side_stream(millrace::DeviceMemory& memory, bool records) {
  const cudaStream_t main = make_stream(), side = make_stream();
  millrace::Buffer copy = memory.buffer(kBytes, side);
  cudaEvent_t made = nullptr;
  check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  for (int step = 0; step < 3; ++step) {
    void* const batch = memory.allocate(kBytes, main);
    check(cudaMemsetAsync(batch, step, kBytes, main));
    check(cudaEventRecord(made, main));
    check(cudaStreamWaitEvent(side, made, 0));
    check(cudaMemcpyAsync(copy.data(), batch, kBytes, cudaMemcpyDeviceToDevice, side));
    if (records) memory.record_use(batch, side);
    memory.deallocate(batch, main);
  }
  check(cudaDeviceSynchronize());
}

void after_the_free(millrace::DeviceMemory& memory) {
  const cudaStream_t stream = make_stream();
  void* const block = memory.allocate(kBytes, stream);
  memory.deallocate(block, stream);
  check(cudaMemsetAsync(block, 1, kBytes, stream));
  check(cudaDeviceSynchronize());
}

/** Writes one byte more than was requested. The block has that byte, the allocation does not. */
void past_the_end(millrace::DeviceMemory& memory) {
  const cudaStream_t stream = make_stream();
  void* const block = memory.allocate(1000, stream);
  check(cudaMemsetAsync(block, 1, 1001, stream));
  check(cudaDeviceSynchronize());
  memory.deallocate(block, stream);
}

/** Each launch of a graph uses memory that was freed during or after the capture. */
void in_a_graph() {
  millrace::DeviceMemory::Options options;
  options.find_captures = true;
  millrace::DeviceMemory memory{0, options};
  const cudaStream_t stream = make_stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  void* const weights = memory.allocate(kBytes, stream);  // freed before the launches
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  check(cudaMemsetAsync(weights, 3, kBytes, stream));
  memory.record_use(weights, stream);
  for (std::size_t bytes = 2 * kBytes; bytes > 1000; bytes /= 3) {  // blocks reuse memory
    void* const block = memory.allocate(bytes, stream);
    check(cudaMemsetAsync(block, 1, bytes, stream));
    memory.deallocate(block, stream);
  }
  check(cudaStreamEndCapture(stream, &graph));
  memory.deallocate(weights, stream);
  check(cudaGraphInstantiate(&executable, graph, 0));
  for (int launch = 0; launch < 3; ++launch) {
    check(cudaGraphLaunch(executable, stream));
    millrace::Buffer between = memory.buffer(kBytes, stream);
    check(cudaMemsetAsync(between.data(), 2, kBytes, stream));
  }
  check(cudaDeviceSynchronize());
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
}

}  // namespace

int main(int, char** arguments) {
  const std::string_view which = arguments[1];
  millrace::DeviceMemory memory{0};
  if (which == "recorded") {
    side_stream(memory, true);
  } else if (which == "not_recorded") {
    side_stream(memory, false);
  } else if (which == "after_the_free") {
    after_the_free(memory);
  } else if (which == "past_the_end") {
    past_the_end(memory);
  } else if (which == "in_a_graph") {
    in_a_graph();
  } else {
    return 2;
  }
}
