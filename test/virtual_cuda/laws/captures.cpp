#include <thread>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_OK(cudaStreamIsCapturing(stream, &status));
  return status;
}

}  // namespace

TEST_CASE("captured work runs only at launches of its graph") {
  const Stream stream;
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  CUDA_OK(cudaMemset(block.get(), 1, 64));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(status_of(stream) == cudaStreamCaptureStatusActive);
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 64, cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaMemsetAsync(block.get(), 2, 64, stream));
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CHECK(status_of(stream) == cudaStreamCaptureStatusNone);
  CHECK(count_nodes(graph) == 2);
  CUDA_OK(cudaDeviceSynchronize());
  CHECK(read(block) == all(64, 1));

  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphDestroy(graph));  // an executable graph no longer needs it
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 1);
  CUDA_OK(cudaMemsetAsync(block.get(), 3, 64, stream));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 2);  // left by the previous launch
  CUDA_OK(cudaGraphExecDestroy(executable));
}

TEST_CASE("a stream that waits for a captured event joins the capture and has to be joined again") {
  const Stream origin;
  const Stream side;
  const Event fork;
  const Event join;
  const DeviceBlock block{64};
  const PinnedBlock seen{64};
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaMemsetAsync(block.get(), 4, 64, origin));
  CUDA_OK(cudaEventRecord(fork, origin));
  CUDA_OK(cudaStreamWaitEvent(side, fork, 0));
  CHECK(status_of(side) == cudaStreamCaptureStatusActive);
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), 64, cudaMemcpyDeviceToHost, side));
  SECTION("the stream is joined") {
    CUDA_OK(cudaEventRecord(join, side));
    CUDA_OK(cudaStreamWaitEvent(origin, join, 0));
    CUDA_OK(cudaMemsetAsync(block.get(), 5, 64, origin));
    CUDA_OK(cudaStreamEndCapture(origin, &graph));
    CHECK(status_of(side) == cudaStreamCaptureStatusNone);
    const cudaGraphExec_t executable = instantiate(graph);
    CUDA_OK(cudaGraphLaunch(executable, origin));
    CUDA_OK(cudaStreamSynchronize(origin));
    CHECK(seen[63] == 4);
    CHECK(read(block) == all(64, 5));
    CUDA_OK(cudaGraphExecDestroy(executable));
    CUDA_OK(cudaGraphDestroy(graph));
  }
  SECTION("the stream is not joined") {
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(graph == nullptr);
    CHECK(status_of(side) == cudaStreamCaptureStatusNone);
  }
  SECTION("the host cannot wait for a captured event") {
    CHECK(cudaEventQuery(fork) != cudaSuccess);
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a call that a capture forbids fails and invalidates the capture") {
  const Stream stream{cudaStreamDefault};
  const Event before;
  const DeviceBlock block{64};
  void* address = nullptr;
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaEventRecord(before, stream));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SECTION("a synchronization of the stream") {
    CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a synchronization of the device") {
    CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a query of the stream's id") {
    unsigned long long id = 0;
    CHECK(cudaStreamGetId(stream, &id) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a query of the stream's flags") {
    unsigned flags = 0;
    CHECK(cudaStreamGetFlags(stream, &flags) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a query of the stream's device") {
    int device = 0;
    CHECK(cudaStreamGetDevice(stream, &device) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("an allocation that may synchronize") {
    CHECK(cudaMalloc(&address, 64) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("work on the legacy stream") {
    CHECK(cudaMemset(block.get(), 1, 64) == cudaErrorStreamCaptureImplicit);
  }
  SECTION("a wait for work outside the capture") {
    CHECK(cudaStreamWaitEvent(stream, before, 0) == cudaErrorStreamCaptureIsolation);
  }
  CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  CHECK(cudaMemsetAsync(block.get(), 1, 64, stream) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMemset(block.get(), 1, 64));
}

TEST_CASE("an allocation is allowed in a relaxed capture or thread") {
  const Stream stream;
  void* address = nullptr;
  cudaGraph_t graph = nullptr;
  SECTION("the capture is relaxed") {
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUDA_OK(cudaMalloc(&address, 64));
  }
  SECTION("the thread is relaxed") {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CUDA_OK(cudaMalloc(&address, 64));
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);
  }
  SECTION("another thread allocates during a thread-local capture") {
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    std::thread{[&] { CHECK(cudaMalloc(&address, 64) == cudaSuccess); }}.join();
  }
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaFree(address));
}

TEST_CASE("a captured stream may be destroyed, and only its capture is lost") {
  const Stream origin;
  const Event fork;
  const DeviceBlock block{64};
  cudaStream_t side = nullptr;
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  SECTION("the stream that began the capture") {
    CUDA_OK(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaStreamDestroy(side));
  }
  SECTION("a stream that joined the capture") {
    CUDA_OK(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaEventRecord(fork, origin));
    CUDA_OK(cudaStreamWaitEvent(side, fork, 0));
    CUDA_OK(cudaMemsetAsync(block.get(), 2, 64, side));
    CUDA_OK(cudaStreamDestroy(side));
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureUnjoined);
  }
  void* address = nullptr;
  CUDA_OK(cudaMalloc(&address, 64));
  CUDA_OK(cudaFree(address));
  CUDA_OK(cudaMemsetAsync(block.get(), 1, 64, origin));
  CUDA_OK(cudaStreamSynchronize(origin));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("the capture info has edge data for each node of the dependencies") {
  const Stream stream;
  const Stream other;
  const Event event;
  const DeviceBlock block{64};
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CUDA_OK(cudaEventRecord(event, stream));
  CUDA_OK(cudaStreamWaitEvent(other, event, 0));
  CUDA_OK(cudaMemsetAsync(block.get(), 1, 64, stream));
  CUDA_OK(cudaMemsetAsync(block.get(), 1, 64, other));
  CUDA_OK(cudaEventRecord(event, other));
  CUDA_OK(cudaStreamWaitEvent(stream, event, 0));
  CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &nodes, &edges, &count));
  REQUIRE(count == 2);
  REQUIRE(edges != nullptr);
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(edges[i].from_port == 0);
    CHECK(edges[i].to_port == 0);
    CHECK(edges[i].type == 0);
  }
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a stream that was forked and joined in a capture may be destroyed before it ends") {
  const Stream stream;
  const Event event;
  const DeviceBlock block{64};
  cudaStream_t side = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CUDA_OK(cudaMemsetAsync(block.get(), 1, 32, stream));
  CUDA_OK(cudaEventRecord(event, stream));
  CUDA_OK(cudaStreamWaitEvent(side, event, 0));
  CUDA_OK(cudaMemsetAsync(block.get() + 32, 2, 32, side));
  CUDA_OK(cudaEventRecord(event, side));
  CUDA_OK(cudaStreamWaitEvent(stream, event, 0));
  CUDA_OK(cudaStreamDestroy(side));
  CUDA_OK(cudaMemsetAsync(block.get(), 3, 16, stream));
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CHECK(count_nodes(graph) == 3);
  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(block)[0] == 3);
  CHECK(read(block)[16] == 1);
  CHECK(read(block)[63] == 2);
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}
