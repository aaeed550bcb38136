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

cudaGraphNode_t add_row_fill(cudaGraph_t graph, const DeviceBlock& block, unsigned value,
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

TEST_CASE("nodes run in the order of their edges") {
  const Stream stream;
  const DeviceBlock block{64};
  const PinnedBlock seen{2};
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t first = add_row_fill(graph, block, 1, {});
  cudaGraphNode_t look = nullptr;
  CUDA_OK(cudaGraphAddMemcpyNode1D(&look, graph, &first, 1, seen.get(), block.get(), 1,
                                   cudaMemcpyDeviceToHost));
  const cudaGraphNode_t second = add_row_fill(graph, block, 2, {look});
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
  const cudaGraphNode_t first = add_row_fill(graph, block, 1, {});
  const cudaGraphNode_t second = add_row_fill(graph, block, 2, {first});
  CUDA_OK(cudaGraphAddDependencies(graph, &second, &first, nullptr, 1));
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("an update of a graph takes over parameters and refuses another topology") {
  const Stream stream;
  const DeviceBlock block{64};
  cudaGraph_t graphs[3] = {};
  for (unsigned i = 0; i < 3; ++i) {
    CUDA_OK(cudaGraphCreate(&graphs[i], 0));
    const cudaGraphNode_t node = add_row_fill(graphs[i], block, i + 1, {});
    if (i == 2) static_cast<void>(add_row_fill(graphs[i], block, 9, {node}));
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
  CUDA_OK(cudaDeviceGraphMemTrim(0));
  const std::size_t before = free_memory();
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
  // On an H200, 34 MiB were missing. Its runtime may keep them for graphs until it trims.
  if (!is_virtual()) CUDA_OK(cudaDeviceGraphMemTrim(0));
  CHECK(same_memory(free_memory(), before));
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

TEST_CASE("a node that frees null is refused") {
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
  add_row_fill(child, block, 1, {add_row_fill(child, block, 2, {})});
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t first = add_row_fill(graph, block, 3, {});
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
