// A graph whose capture allocates: its memory keeps its addresses from launch to launch, and
// serves the next captures when the graph is gone.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "millrace/interop/device_memory.hpp"

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

}  // namespace

int main() {
  constexpr std::size_t kBytes = 16 << 20;
  millrace::DeviceMemory::Options options;
  options.find_captures = true;  // captures need not be announced
  millrace::DeviceMemory memory{0, options};
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  millrace::Buffer input = memory.buffer(kBytes, stream);  // static: filled before each launch
  millrace::Buffer output = memory.buffer(kBytes, stream);

  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int layer = 0; layer < 8; ++layer) {  // each layer reuses the memory of the one before
    void* const scratch = memory.allocate(kBytes, stream);
    const void* const from = layer == 0 ? input.data() : output.data();
    check(cudaMemcpyAsync(scratch, from, kBytes, cudaMemcpyDeviceToDevice, stream));
    check(cudaMemcpyAsync(output.data(), scratch, kBytes, cudaMemcpyDeviceToDevice, stream));
    memory.deallocate(scratch, stream);
  }
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  check(cudaGraphInstantiate(&executable, graph, 0));

  std::vector<unsigned char> found(kBytes);
  for (int step = 1; step <= 5; ++step) {
    check(cudaMemsetAsync(input.data(), step, kBytes, stream));
    check(cudaGraphLaunch(executable, stream));
    check(cudaMemcpyAsync(found.data(), output.data(), kBytes, cudaMemcpyDeviceToHost, stream));
    // Requests between launches do not get the graph's memory.
    millrace::Buffer other = memory.buffer(4 * kBytes, stream);
    check(cudaMemsetAsync(other.data(), 0xff, other.size(), stream));
    check(cudaStreamSynchronize(stream));
    for (const unsigned char byte : found) {
      if (byte != step) return std::fprintf(stderr, "wrong bytes in step %d\n", step), 1;
    }
  }
  const millrace::GraphPoolStatistics pools = memory.statistics().graph_pools;
  std::printf("8 layers of 16 MiB each: the graph holds %zu MiB\n", pools.reserved >> 20);
  check(cudaGraphExecDestroy(executable));
  check(cudaGraphDestroy(graph));
}
