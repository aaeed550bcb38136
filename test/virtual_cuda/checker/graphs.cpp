// The order between launches of graphs, and between their nodes.

#include <atomic>
#include <thread>

#include "test/virtual_cuda/checker/scene.hpp"

using namespace millrace::test;
using kernels::launch_write;

namespace {

/** A graph of fills, each of its own block. */
class FillGraph {
 public:
  FillGraph() { CUDA_OK(cudaGraphCreate(&graph_, 0)); }
  ~FillGraph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  FillGraph(const FillGraph&) = delete;
  FillGraph& operator=(const FillGraph&) = delete;

  cudaGraphNode_t fill(const DeviceBlock& block, const std::vector<cudaGraphNode_t>& after = {}) {
    cudaMemsetParams parameters{};
    parameters.dst = block.get();
    parameters.elementSize = 1;
    parameters.width = block.bytes();
    parameters.height = 1;
    cudaGraphNode_t node = nullptr;
    CUDA_OK(cudaGraphAddMemsetNode(&node, graph_, after.data(), after.size(), &parameters));
    return node;
  }
  cudaGraphNode_t wait(cudaEvent_t event) {
    cudaGraphNode_t node = nullptr;
    CUDA_OK(cudaGraphAddEventWaitNode(&node, graph_, nullptr, 0, event));
    return node;
  }
  void launch(cudaStream_t stream) {
    if (executable_ == nullptr) CUDA_OK(cudaGraphInstantiate(&executable_, graph_, 0));
    CUDA_OK(cudaGraphLaunch(executable_, stream));
  }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

TEST_CASE("work after a launch is ordered after each branch of the graph", "[laws]") {
  const Stream stream;
  const DeviceBlock one{kBytes}, two{kBytes}, three{kBytes};
  const Races races;
  FillGraph graph;
  const cudaGraphNode_t before = graph.fill(one);
  graph.fill(two);
  graph.fill(three, {before});
  graph.launch(stream);
  CUDA_OK(cudaMemsetAsync(one.get(), 1, kBytes, stream));
  CUDA_OK(cudaMemsetAsync(two.get(), 1, kBytes, stream));
  CUDA_OK(cudaMemsetAsync(three.get(), 1, kBytes, stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("launches of one executable graph are ordered with each other on any streams", "[laws]") {
  const Stream first, second;
  const DeviceBlock block{kBytes};
  const Races races;
  FillGraph graph;
  graph.fill(block);
  graph.launch(first);
  graph.launch(second);
  CHECK(races.count() == 0);
  FillGraph other;
  other.fill(block);
  other.launch(first);
  CHECK(races.count() == 1);
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("a node after an event wait is ordered after the record, other nodes are not", "[laws]") {
  const Stream first, second;
  const Event event;
  const DeviceBlock block{kBytes};
  const bool waits = GENERATE(true, false);
  const Races races;
  FillGraph graph;
  const cudaGraphNode_t wait = graph.wait(event);
  graph.fill(block, waits ? std::vector{wait} : std::vector<cudaGraphNode_t>{});
  CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, first));
  CUDA_OK(cudaEventRecord(event, first));
  graph.launch(second);
  CHECK(races.count() == (waits ? 0 : 1));
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("a host function is ordered before calls that are made after its end", "[laws]") {
  const Stream first, second;
  const PinnedBlock pinned{kBytes};
  const DeviceBlock block{kBytes};
  static std::atomic<bool> ended;
  ended = false;
  const Races races;
  CUDA_OK(cudaLaunchHostFunc(
      first, [](void* data) { host_writes(data, kBytes); }, pinned.get()));
  CUDA_OK(cudaLaunchHostFunc(
      first, [](void*) { ended = true; }, nullptr));
  while (!ended) std::this_thread::yield();
  CUDA_OK(cudaMemcpyAsync(block.get(), pinned.get(), kBytes, cudaMemcpyHostToDevice, second));
  CHECK(races.count() == 0);
  CUDA_OK(cudaDeviceSynchronize());
}

namespace {

cudaGraphNode_t add_fill(cudaGraph_t graph, const DeviceBlock& block) {
  cudaMemsetParams parameters{};
  parameters.dst = block.get();
  parameters.elementSize = 1;
  parameters.width = block.bytes();
  parameters.height = 1;
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &parameters));
  return node;
}

/** A graph with one IF node. Each of its bodies, including ELSE, fills one block. */
class Choice {
 public:
  explicit Choice(const std::vector<const DeviceBlock*>& blocks) {
    CUDA_OK(cudaGraphCreate(&graph_, 0));
    cudaGraphNodeParams parameters = {};
    parameters.type = cudaGraphNodeTypeConditional;
    CUDA_OK(cudaGraphConditionalHandleCreate(&parameters.conditional.handle, graph_, 1,
                                             cudaGraphCondAssignDefault));
    parameters.conditional.type = cudaGraphCondTypeIf;
    parameters.conditional.size = 2;
    cudaGraphNode_t node = nullptr;
    CUDA_OK(cudaGraphAddNode(&node, graph_, nullptr, nullptr, 0, &parameters));
    for (int body = 0; body < 2; ++body)
      for (const DeviceBlock* const block : blocks)
        add_fill(parameters.conditional.phGraph_out[body], *block);
    CUDA_OK(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~Choice() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  Choice(const Choice&) = delete;
  Choice& operator=(const Choice&) = delete;
  void launch(cudaStream_t stream) { CUDA_OK(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

TEST_CASE("the bodies of a conditional node are ordered as the node and not concurrent", "[laws]") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const Races races;
  Choice choice{{&block}};
  CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, stream));
  choice.launch(stream);
  choice.launch(stream);
  CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, stream));
  CHECK(races.count() == 0);
  CUDA_OK(cudaStreamSynchronize(stream));
}

TEST_CASE("a body races with unordered work, even if the body does not run", "[laws]") {
  const Stream stream, other;
  const DeviceBlock block{kBytes};
  const Races races;
  Choice choice{{&block}};
  choice.launch(stream);
  CUDA_OK(cudaMemsetAsync(block.get(), 1, kBytes, other));
  CHECK(races.count() != 0);
  CUDA_OK(cudaDeviceSynchronize());
}

TEST_CASE("nodes of one body race without an edge", "[laws]") {
  const Stream stream;
  const DeviceBlock block{kBytes};
  const Races races;
  Choice choice{{&block, &block}};
  choice.launch(stream);
  CHECK(races.count() != 0);
  CUDA_OK(cudaDeviceSynchronize());
}
