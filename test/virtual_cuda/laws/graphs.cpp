#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "test/virtual_cuda/laws/gpu.hpp"

using namespace millrace::test;

namespace {

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  CUDA_OK(cudaGraphInstantiate(&executable, graph, 0));
  return executable;
}

std::size_t count_nodes(cudaGraph_t graph) {
  std::size_t count = 0;
  CUDA_OK(cudaGraphGetNodes(graph, nullptr, &count));
  return count;
}

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CUDA_OK(cudaStreamIsCapturing(stream, &status));
  return status;
}

cudaGraphNode_t add_fill(cudaGraph_t graph, const DeviceBlock& block, unsigned value,
                         const std::vector<cudaGraphNode_t>& after) {
  cudaMemsetParams parameters{};
  parameters.dst = block.get();
  parameters.value = value;
  parameters.elementSize = 1;
  parameters.width = block.bytes();
  parameters.height = 1;
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphAddMemsetNode(&node, graph, after.data(), after.size(), &parameters));
  return node;
}

}  // namespace

TEST_CASE("captured work does not run, and runs at each launch of its graph") {
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
  CUDA_OK(cudaGraphDestroy(graph));  // an executable graph needs it no more
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 1);
  CUDA_OK(cudaMemsetAsync(block.get(), 3, 64, stream));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 2);  // what the launch before left
  CUDA_OK(cudaGraphExecDestroy(executable));
}

TEST_CASE("a stream that waits for a captured event joins the capture, and has to come back") {
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
  SECTION("it came back") {
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
  SECTION("it did not") {
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(graph == nullptr);
    CHECK(status_of(side) == cudaStreamCaptureStatusNone);
  }
  SECTION("the host cannot wait for what is captured") {
    CHECK(cudaEventQuery(fork) != cudaSuccess);
    CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureInvalidated);
  }
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("what a capture forbids fails and makes it invalid") {
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
  SECTION("a question for the id of the stream") {
    unsigned long long id = 0;
    CHECK(cudaStreamGetId(stream, &id) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a question for the flags of the stream") {
    unsigned flags = 0;
    CHECK(cudaStreamGetFlags(stream, &flags) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("a question for the device of the stream") {
    int device = 0;
    CHECK(cudaStreamGetDevice(stream, &device) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("an allocation that may synchronize") {
    CHECK(cudaMalloc(&address, 64) == cudaErrorStreamCaptureUnsupported);
  }
  SECTION("work on the legacy stream") {
    CHECK(cudaMemset(block.get(), 1, 64) == cudaErrorStreamCaptureImplicit);
  }
  SECTION("a wait for work outside of it") {
    CHECK(cudaStreamWaitEvent(stream, before, 0) == cudaErrorStreamCaptureIsolation);
  }
  CHECK(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  CHECK(cudaMemsetAsync(block.get(), 1, 64, stream) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaMemset(block.get(), 1, 64));
}

TEST_CASE("a relaxed capture, and a thread that relaxed itself, may allocate") {
  const Stream stream;
  void* address = nullptr;
  cudaGraph_t graph = nullptr;
  SECTION("the capture") {
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CUDA_OK(cudaMalloc(&address, 64));
  }
  SECTION("the thread") {
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CUDA_OK(cudaMalloc(&address, 64));
    CUDA_OK(cudaThreadExchangeStreamCaptureMode(&mode));
    CHECK(mode == cudaStreamCaptureModeRelaxed);
  }
  SECTION("another thread, where only the own one is restricted") {
    CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    std::thread{[&] { CHECK(cudaMalloc(&address, 64) == cudaSuccess); }}.join();
  }
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaFree(address));
}

TEST_CASE("a captured stream may be destroyed: its capture is lost, and nothing else") {
  const Stream origin;
  const Event fork;
  const DeviceBlock block{64};
  cudaStream_t side = nullptr;
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
  SECTION("where the capture began") {
    CUDA_OK(cudaStreamBeginCapture(side, cudaStreamCaptureModeGlobal));
    CUDA_OK(cudaStreamDestroy(side));
  }
  SECTION("where it was joined") {
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

TEST_CASE("nodes run in the order of their edges, and of nothing else") {
  const Stream stream;
  const DeviceBlock block{64};
  const PinnedBlock seen{2};
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t first = add_fill(graph, block, 1, {});
  cudaGraphNode_t look = nullptr;
  CUDA_OK(cudaGraphAddMemcpyNode1D(&look, graph, &first, 1, seen.get(), block.get(), 1,
                                   cudaMemcpyDeviceToHost));
  const cudaGraphNode_t second = add_fill(graph, block, 2, {look});
  CUDA_OK(cudaGraphAddMemcpyNode1D(&look, graph, &second, 1, seen.get() + 1, block.get(), 1,
                                   cudaMemcpyDeviceToHost));
  std::size_t roots = 0;
  CUDA_OK(cudaGraphGetRootNodes(graph, nullptr, &roots));
  CHECK(roots == 1);
  cudaGraphNodeType type{};
  CUDA_OK(cudaGraphNodeGetType(second, &type));
  CHECK(type == cudaGraphNodeTypeMemset);
  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[0] == 1);
  CHECK(seen[1] == 2);

  cudaMemsetParams changed{};
  CUDA_OK(cudaGraphMemsetNodeGetParams(second, &changed));
  CHECK(changed.value == 2);
  changed.value = 9;
  CUDA_OK(cudaGraphExecMemsetNodeSetParams(executable, second, &changed));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[1] == 9);
  CUDA_OK(cudaGraphNodeSetEnabled(executable, second, 0));
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(seen[1] == 1);
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a graph with a cycle is not instantiated") {
  const DeviceBlock block{64};
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t first = add_fill(graph, block, 1, {});
  const cudaGraphNode_t second = add_fill(graph, block, 2, {first});
  CUDA_OK(cudaGraphAddDependencies(graph, &second, &first, nullptr, 1));
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("an update takes over parameters, and refuses another topology") {
  const Stream stream;
  const DeviceBlock block{64};
  cudaGraph_t graphs[3] = {};
  for (unsigned i = 0; i < 3; ++i) {
    CUDA_OK(cudaGraphCreate(&graphs[i], 0));
    const cudaGraphNode_t node = add_fill(graphs[i], block, i + 1, {});
    if (i == 2) static_cast<void>(add_fill(graphs[i], block, 9, {node}));
  }
  const cudaGraphExec_t executable = instantiate(graphs[0]);
  cudaGraphExecUpdateResultInfo info{};
  CUDA_OK(cudaGraphExecUpdate(executable, graphs[1], &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  CHECK(cudaGraphExecUpdate(executable, graphs[2], &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(block) == all(64, 2));
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaGraphExecDestroy(executable));
  for (const cudaGraph_t graph : graphs) CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("memory that a capture allocates serves every launch") {
  const Stream stream;
  const PinnedBlock seen{64};
  cudaGraph_t graph = nullptr;
  void* address = nullptr;
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&before, &total));
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaMallocAsync(&address, 64, stream));
  CUDA_OK(cudaMemsetAsync(address, 6, 64, stream));
  CUDA_OK(cudaMemcpyAsync(seen.get(), address, 64, cudaMemcpyDeviceToHost, stream));
  CUDA_OK(cudaFreeAsync(address, stream));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphDestroy(graph));
  for (int i = 0; i < 2; ++i) {
    seen[0] = 0;
    CUDA_OK(cudaGraphLaunch(executable, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    CHECK(seen[0] == 6);
  }
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaMemGetInfo(&after, &total));
  CHECK(after == before);
}

TEST_CASE("a user object lives as long as a graph that holds it") {
  std::atomic<int> destroyed{0};
  cudaUserObject_t user = nullptr;
  CUDA_OK(cudaUserObjectCreate(
      &user, &destroyed, [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, 1,
      cudaUserObjectNoDestructorSync));
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  CUDA_OK(cudaGraphRetainUserObject(graph, user, 1, cudaGraphUserObjectMove));
  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphDestroy(graph));
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
  CHECK(destroyed == 0);
  CUDA_OK(cudaGraphExecDestroy(executable));
  for (int i = 0; i < 1000 && destroyed == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  CHECK(destroyed == 1);
}

TEST_CASE("a capture gives the data of the edges to what comes next: as many as there are nodes") {
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

TEST_CASE("a node cannot free nothing") {
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  cudaGraphNode_t node = nullptr;
  CHECK(cudaGraphAddMemFreeNode(&node, graph, nullptr, 0, nullptr) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CHECK(count_nodes(graph) == 0);
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("a drawing of a graph has its nodes, its edges and those of its child graphs") {
  const DeviceBlock block{64};
  cudaGraph_t child = nullptr;
  CUDA_OK(cudaGraphCreate(&child, 0));
  add_fill(child, block, 1, {add_fill(child, block, 2, {})});
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t first = add_fill(graph, block, 3, {});
  cudaGraphNode_t second = nullptr;
  CUDA_OK(cudaGraphAddChildGraphNode(&second, graph, &first, 1, child));

  char path[] = "/tmp/millrace_graph_XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  CUDA_OK(cudaGraphDebugDotPrint(graph, path, 0));
  std::set<std::string> lines;
  std::ifstream drawing{path};
  for (std::string line; std::getline(drawing, line);) lines.insert(line);
  unlink(path);
  CHECK(lines ==
        std::set<std::string>{"digraph {", "node [shape=box];", "n1 [label=\"1: fill, 64 bytes\"];",
                              "n2 [label=\"2: child graph\"];", "n1 -> n2;",
                              "subgraph cluster_n2 {", "n2n1 [label=\"1: fill, 64 bytes\"];",
                              "n2n2 [label=\"2: fill, 64 bytes\"];", "n2n1 -> n2n2;", "}"});
  CHECK(cudaGraphDebugDotPrint(graph, "/nowhere/drawing", 0) == cudaErrorOperatingSystem);
  CHECK(cudaGraphDebugDotPrint(graph, nullptr, 0) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaGraphDestroy(graph));
  CUDA_OK(cudaGraphDestroy(child));
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
