// How conditional nodes are made, changed and drawn, and what CUDA does not allow.

#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "test/virtual_cuda/laws/conditional.hpp"

using namespace millrace::test;

namespace {

cudaError_t last_error_of(cudaError_t error) {
  static_cast<void>(cudaGetLastError());
  return error;
}

std::string drawing_of(cudaGraph_t graph) {
  char path[] = "/tmp/millrace_graph_XXXXXX";
  const int file = mkstemp(path);
  REQUIRE(file >= 0);
  close(file);
  CUDA_OK(cudaGraphDebugDotPrint(graph, path, 0));
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  unlink(path);
  return text.str();
}

}  // namespace

TEST_CASE("a conditional node is added in a capture, and a stream is captured to its body") {
  const Stream stream, inside;
  const DeviceBlock block{kBytes}, other{kBytes};
  cudaGraph_t graph = nullptr;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, stream));
  cudaStreamCaptureStatus status{};
  cudaGraph_t captured = nullptr;
  const cudaGraphNode_t* tails = nullptr;
  std::size_t count = 0;
  CUDA_OK(cudaStreamGetCaptureInfo(stream, &status, nullptr, &captured, &tails, nullptr, &count));
  Conditional choice = add_conditional(captured, condition_of(captured, 1), cudaGraphCondTypeIf, 1,
                                       {tails, tails + count});
  CUDA_OK(cudaStreamUpdateCaptureDependencies(stream, &choice.node, nullptr, 1,
                                              cudaStreamSetCaptureDependencies));
  CUDA_OK(cudaStreamBeginCaptureToGraph(inside, choice.bodies[0], nullptr, nullptr, 0,
                                        cudaStreamCaptureModeGlobal));
  CUDA_OK(cudaMemsetAsync(block.get(), 2, kBytes, inside));
  cudaGraph_t body = nullptr;
  CUDA_OK(cudaStreamEndCapture(inside, &body));
  CHECK(body == choice.bodies[0]);
  CUDA_OK(cudaMemcpyAsync(other.get(), block.get(), kBytes, cudaMemcpyDeviceToDevice, stream));
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  const cudaGraphExec_t executable = instantiate(graph);
  CUDA_OK(cudaGraphLaunch(executable, stream));
  CUDA_OK(cudaStreamSynchronize(stream));
  CHECK(read(other) == all(kBytes, 2));
  CUDA_OK(cudaGraphExecDestroy(executable));
  CUDA_OK(cudaGraphDestroy(graph));
}

TEST_CASE("an invalid handle or an invalid conditional node is refused") {
  LaunchedGraph graph, other;
  cudaGraphConditionalHandle handle = 0;
  CHECK(cudaGraphConditionalHandleCreate(nullptr, graph, 0, 0) == cudaErrorInvalidValue);
  CHECK(cudaGraphConditionalHandleCreate(&handle, nullptr, 0, 0) == cudaErrorInvalidValue);
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 0, 2) == cudaErrorInvalidValue);
  handle = condition_of(graph, 0);
  const auto add = [&](cudaGraph_t to, cudaGraphConditionalHandle condition, int type,
                       unsigned size) {
    cudaGraphNodeParams parameters =
        conditional(condition, static_cast<cudaGraphConditionalNodeType>(type), size);
    cudaGraphNode_t node = nullptr;
    return cudaGraphAddNode(&node, to, nullptr, nullptr, 0, &parameters);
  };
  CHECK(add(graph, handle, cudaGraphCondTypeIf, 0) == cudaErrorInvalidValue);
  CHECK(add(graph, handle, cudaGraphCondTypeIf, 3) == cudaErrorInvalidValue);
  CHECK(add(graph, handle, cudaGraphCondTypeWhile, 2) == cudaErrorInvalidValue);
  CHECK(add(graph, handle, cudaGraphCondTypeSwitch, 0) == cudaErrorInvalidValue);
  CHECK(add(graph, handle, 3, 1) == cudaErrorInvalidValue);
  CHECK(add(graph, handle + 1000, cudaGraphCondTypeIf, 1) == cudaErrorInvalidValue);
  CHECK(add(other, handle, cudaGraphCondTypeIf, 1) == cudaErrorInvalidValue);
  CHECK(count_nodes(graph) == 0);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("a graph with conditional nodes cannot be cloned or be a child graph") {
  LaunchedGraph graph, other;
  const Conditional choice = add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeIf);
  cudaGraph_t clone = nullptr;
  CHECK(last_error_of(cudaGraphClone(&clone, graph)) != cudaSuccess);
  cudaGraphNode_t node = nullptr;
  CHECK(last_error_of(cudaGraphAddChildGraphNode(&node, other, nullptr, 0, graph)) != cudaSuccess);
  CHECK(last_error_of(cudaGraphDestroy(choice.bodies[0])) != cudaSuccess);
  cudaGraphNodeParams parameters = conditional(condition_of(graph, 1), cudaGraphCondTypeIf);
  CHECK(last_error_of(cudaGraphNodeSetParams(choice.node, &parameters)) != cudaSuccess);
}

TEST_CASE("the graph inside a child node has no conditional nodes") {
  LaunchedGraph child, graph;
  const DeviceBlock block{kBytes};
  add_fill(child, block, 1);
  cudaGraph_t outer = graph;
  SECTION("a child node of a graph") { CHECK(count_nodes(outer) == 0); }
  SECTION("a child node of a body") {
    outer = add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeIf).bodies[0];
  }
  SECTION("a child node of another child node") {
    LaunchedGraph between;
    cudaGraphNode_t node = nullptr;
    CUDA_OK(cudaGraphAddChildGraphNode(&node, between, nullptr, 0, child));
    CUDA_OK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, between));
    CUDA_OK(cudaGraphChildGraphNodeGetGraph(node, &outer));
  }
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphAddChildGraphNode(&node, outer, nullptr, 0, child));
  cudaGraph_t embedded = nullptr;
  CUDA_OK(cudaGraphChildGraphNodeGetGraph(node, &embedded));
  cudaGraphConditionalHandle handle = 0;
  CHECK(last_error_of(cudaGraphConditionalHandleCreate(&handle, embedded, 1, 0)) ==
        cudaErrorNotSupported);
  cudaGraphNodeParams parameters = conditional(condition_of(graph, 1), cudaGraphCondTypeIf);
  CHECK(last_error_of(cudaGraphAddNode(&node, embedded, nullptr, nullptr, 0, &parameters)) !=
        cudaSuccess);
  CHECK(count_nodes(embedded) == 1);
  // The graph that was copied into the node may still have conditional nodes.
  static_cast<void>(add_conditional(child, condition_of(child, 1), cudaGraphCondTypeIf));
  // A clone of the embedded graph may have them too.
  cudaGraph_t clone = nullptr;
  CUDA_OK(cudaGraphClone(&clone, embedded));
  static_cast<void>(add_conditional(clone, condition_of(clone, 1), cudaGraphCondTypeIf));
  CUDA_OK(cudaGraphDestroy(clone));
}

TEST_CASE("one instance of a graph with conditional nodes exists at a time") {
  LaunchedGraph graph;
  static_cast<void>(add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeIf));
  graph.executable = instantiate(graph);
  cudaGraphExec_t second = nullptr;
  CHECK(last_error_of(cudaGraphInstantiate(&second, graph, 0)) != cudaSuccess);
  CUDA_OK(cudaGraphExecDestroy(std::exchange(graph.executable, nullptr)));
  graph.executable = instantiate(graph);
}

TEST_CASE("a graph whose bodies or handles CUDA does not allow is not instantiated") {
  const DeviceBlock block{kBytes};
  const PinnedBlock pinned{kBytes};
  LaunchedGraph graph;
  cudaGraphInstantiateResult expected = cudaGraphInstantiateInvalidStructure;
  const cudaGraphConditionalHandle handle = condition_of(graph, 1);
  cudaGraphNode_t node = nullptr;
  bool good = false;
  SECTION("a handle without a node") {
    expected = cudaGraphInstantiateConditionalHandleUnused;
    CHECK(count_nodes(graph) == 0);
  }
  SECTION("a host function in a nested body") {
    const Conditional outer = add_conditional(graph, handle, cudaGraphCondTypeIf);
    const Conditional inner =
        add_conditional(outer.bodies[0], condition_of(outer.bodies[0], 0), cudaGraphCondTypeIf);
    const cudaHostNodeParams host{[](void*) {}, nullptr};
    CUDA_OK(cudaGraphAddHostNode(&node, inner.bodies[0], nullptr, 0, &host));
  }
  SECTION("a copy from pageable memory") {
    static char pageable[kBytes];
    const Conditional choice = add_conditional(graph, handle, cudaGraphCondTypeIf);
    CUDA_OK(cudaGraphAddMemcpyNode1D(&node, choice.bodies[0], nullptr, 0, block.get(), pageable,
                                     kBytes, cudaMemcpyHostToDevice));
  }
  SECTION("an event in a child graph") {
    const Event event;
    LaunchedGraph child;
    CUDA_OK(cudaGraphAddEventRecordNode(&node, child, nullptr, 0, event));
    const Conditional choice = add_conditional(graph, handle, cudaGraphCondTypeIf);
    CUDA_OK(cudaGraphAddChildGraphNode(&node, choice.bodies[0], nullptr, 0, child));
    CUDA_OK(cudaGraphInstantiate(&child.executable, child, 0));
  }
  SECTION("a copy from pinned memory is allowed") {
    const Conditional choice = add_conditional(graph, handle, cudaGraphCondTypeIf);
    CUDA_OK(cudaGraphAddMemcpyNode1D(&node, choice.bodies[0], nullptr, 0, block.get(), pinned.get(),
                                     kBytes, cudaMemcpyHostToDevice));
    good = true;
  }
  cudaGraphInstantiateParams parameters{};
  const cudaError_t error = cudaGraphInstantiateWithParams(&graph.executable, graph, &parameters);
  CHECK(last_error_of(error) == (good ? cudaSuccess : cudaErrorInvalidValue));
  CHECK(parameters.result_out == (good ? cudaGraphInstantiateSuccess : expected));
}

TEST_CASE("an update takes over the contents of the bodies and refuses different bodies") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const auto build = [&](LaunchedGraph& graph, unsigned value, unsigned condition,
                         cudaGraphConditionalNodeType type, int fills) {
    const Conditional choice = add_conditional(graph, condition_of(graph, condition), type);
    std::vector<cudaGraphNode_t> last;
    for (int i = 0; i < fills; ++i) last = {add_fill(choice.bodies[0], block, value, last)};
    return last.front();
  };
  LaunchedGraph first, second, idle, another, longer;
  const cudaGraphNode_t fill = build(first, 1, 1, cudaGraphCondTypeIf, 1);
  build(second, 2, 1, cudaGraphCondTypeIf, 1);
  build(idle, 3, 0, cudaGraphCondTypeIf, 1);
  build(another, 4, 1, cudaGraphCondTypeSwitch, 1);
  build(longer, 5, 1, cudaGraphCondTypeIf, 2);
  first.launch(stream);
  CHECK(read(block) == all(kBytes, 1));
  // The node in the body changes after a launch with its old parameters was enqueued.
  const DeviceBlock seen{kBytes};
  const cudaMemsetParams changed = fill_of(block, 6);
  first.enqueue(stream);
  CUDA_OK(cudaMemcpyAsync(seen.get(), block.get(), kBytes, cudaMemcpyDeviceToDevice, stream));
  CUDA_OK(cudaGraphExecMemsetNodeSetParams(first.executable, fill, &changed));
  first.launch(stream);
  CHECK(read(seen) == all(kBytes, 1));
  CHECK(read(block) == all(kBytes, 6));

  cudaGraphExecUpdateResultInfo info{};
  CHECK(cudaGraphExecUpdate(first.executable, another, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorParametersChanged);
  CHECK(cudaGraphExecUpdate(first.executable, longer, &info) == cudaErrorGraphExecUpdateFailure);
  CHECK(info.result == cudaGraphExecUpdateErrorTopologyChanged);
  static_cast<void>(cudaGetLastError());
  CUDA_OK(cudaGraphExecUpdate(first.executable, second, &info));
  CHECK(info.result == cudaGraphExecUpdateSuccess);
  first.launch(stream);
  CHECK(read(block) == all(kBytes, 2));
  CUDA_OK(cudaGraphExecUpdate(first.executable, idle, &info));
  first.launch(stream);
  CHECK(read(block) == all(kBytes, 2));
}

TEST_CASE("the driver also creates conditional nodes") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  CUDA_OK(cudaMemset(block.get(), 0, kBytes));
  CUDA_OK(cudaDeviceSynchronize());
  CUcontext context = nullptr;
  DRIVER_OK("cuCtxGetCurrent", &context);
  LaunchedGraph graph;
  unsigned long long handle = 0;
  DRIVER_OK("cuGraphConditionalHandleCreate", &handle, static_cast<CUgraph>(graph.graph), context,
            1U, 1U);
  CUgraphNodeParams parameters = {};
  parameters.type = static_cast<decltype(parameters.type)>(cudaGraphNodeTypeConditional);
  parameters.conditional.handle = handle;
  parameters.conditional.type =
      static_cast<decltype(parameters.conditional.type)>(cudaGraphCondTypeIf);
  parameters.conditional.size = 1;
  parameters.conditional.ctx = context;
  CUgraphNode node = nullptr;
  DRIVER_OK("cuGraphAddNode", &node, static_cast<CUgraph>(graph.graph),
            static_cast<const CUgraphNode*>(nullptr), static_cast<const void*>(nullptr),
            std::size_t{0}, &parameters);
  REQUIRE(parameters.conditional.phGraph_out != nullptr);
  add_fill(parameters.conditional.phGraph_out[0], block, 7);
  graph.launch(stream);
  CHECK(read(block) == all(kBytes, 7));
}

TEST_CASE("a drawing of a graph has the bodies of its conditional nodes") {
  const DeviceBlock block{kBytes};
  LaunchedGraph graph;
  const Conditional choice = add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeIf, 2);
  add_fill(choice.bodies[0], block, 1);
  const Conditional loop =
      add_conditional(choice.bodies[1], condition_of(graph, 0), cudaGraphCondTypeWhile);
  add_fill(loop.bodies[0], block, 1);
  const Conditional cases =
      add_conditional(graph, condition_of(graph, 1), cudaGraphCondTypeSwitch, 2, {choice.node});
  static_cast<void>(cases);
  if (!is_virtual()) return;  // NVIDIA's drawing has other words
  CHECK(drawing_of(graph) ==
        "digraph {\n"
        "node [shape=box];\n"
        "n1 [label=\"1: if, else\"];\n"
        "subgraph cluster_n1b0 {\n"
        "n1b0n1 [label=\"1: fill, 64 bytes\"];\n"
        "}\n"
        "subgraph cluster_n1b1 {\n"
        "n1b1n1 [label=\"1: while\"];\n"
        "subgraph cluster_n1b1n1b0 {\n"
        "n1b1n1b0n1 [label=\"1: fill, 64 bytes\"];\n"
        "}\n"
        "}\n"
        "n2 [label=\"2: switch, 2 cases\"];\n"
        "subgraph cluster_n2b0 {\n"
        "}\n"
        "subgraph cluster_n2b1 {\n"
        "}\n"
        "n1 -> n2;\n"
        "}\n");
}
