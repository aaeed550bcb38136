// Graph capture. Memory that is allocated and freed in a capture belongs to the graph. Memory that
// is freed outside of the graph waits for the end of the capture.

#include "test/interpose/cuda.hpp"

namespace program {
namespace {

void launch(cudaGraph_t graph, cudaStream_t stream) {
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  for (int i = 0; i < 3; ++i) check(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
}

}  // namespace

int captured() {
  constexpr std::size_t kBytes = 2 * kMiB;
  const cudaStream_t stream = make_stream(), other = make_stream();
  unsigned char* const result = allocate(kBytes, stream);
  cudaEvent_t fork = nullptr, join = nullptr;
  check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming), "cudaEventCreate");
  check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming), "cudaEventCreate");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  unsigned char* const scratch = allocate(kBytes, stream);
  check(cudaMemsetAsync(scratch, 7, kBytes, stream), "cudaMemsetAsync");
  check(cudaEventRecord(fork, stream), "cudaEventRecord");
  check(cudaStreamWaitEvent(other, fork, 0), "cudaStreamWaitEvent");
  check(cudaMemcpyAsync(result, scratch, kBytes, cudaMemcpyDeviceToDevice, other),
        "cudaMemcpyAsync");
  check(cudaEventRecord(join, other), "cudaEventRecord");
  check(cudaStreamWaitEvent(stream, join, 0), "cudaStreamWaitEvent");
  check(cudaFreeAsync(scratch, stream), "cudaFreeAsync");
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  launch(graph, stream);
  if (!holds(result, kBytes, 7)) return 1;
  check(cudaFreeAsync(result, stream), "cudaFreeAsync");
  return cudaDeviceSynchronize();
}

/// A program may free memory in a relaxed capture. The capture continues, and the memory is used
/// again later.
int free_in_a_capture() {
  constexpr std::size_t kBytes = 2 * kMiB;
  const cudaStream_t stream = make_stream();
  unsigned char* const result = allocate(kBytes);
  for (int round = 0; round < 10; ++round) {
    unsigned char* const gone = allocate(kBytes);
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    check(cudaMemsetAsync(result, 9, kBytes, stream), "cudaMemsetAsync");
    check(cudaFree(gone), "cudaFree");
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    launch(graph, stream);
    if (!holds(result, kBytes, 9)) return 1;
  }
  return cudaFree(result);
}

}  // namespace program
