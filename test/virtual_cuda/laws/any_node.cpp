// Nodes of any kind that are made or changed in one call.

#include <cstring>

#include "test/virtual_cuda/laws/driver.hpp"

using namespace millrace::test;

namespace {

constexpr std::size_t kNodeBytes = 64;

cudaGraphNode_t add(cudaGraph_t graph, cudaGraphNodeParams& parameters,
                    const std::vector<cudaGraphNode_t>& after = {}) {
  cudaGraphNode_t node = nullptr;
  CUDA_OK(cudaGraphAddNode(&node, graph, after.data(), nullptr, after.size(), &parameters));
  cudaGraphNodeType type{};
  CUDA_OK(cudaGraphNodeGetType(node, &type));
  CHECK(type == parameters.type);
  return node;
}

cudaGraphNodeParams fill_of(void* address, unsigned value) {
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeMemset;
  parameters.memset.dst = address;
  parameters.memset.value = value;
  parameters.memset.elementSize = 1;
  parameters.memset.width = kNodeBytes;
  parameters.memset.height = 1;
  return parameters;
}

cudaGraphNodeParams copy_of(void* to, void* from) {
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeMemcpy;
  cudaMemcpy3DParms& copy = parameters.memcpy.copyParams;
  copy.srcPtr = {from, kNodeBytes, kNodeBytes, 1};
  copy.dstPtr = {to, kNodeBytes, kNodeBytes, 1};
  copy.extent = {kNodeBytes, 1, 1};
  copy.kind = cudaMemcpyDefault;
  return parameters;
}

cudaGraphNodeParams event_of(cudaGraphNodeType type, cudaEvent_t event) {
  cudaGraphNodeParams parameters = {};
  parameters.type = type;
  parameters.eventRecord.event = event;  // a wait has its event in the same place
  return parameters;
}

/** A graph and its executable instance. */
struct Graph {
  Graph() { CUDA_OK(cudaGraphCreate(&graph, 0)); }
  ~Graph() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void launch(cudaStream_t stream) {
    if (executable == nullptr) executable = instantiate(graph);
    CUDA_OK(cudaGraphLaunch(executable, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

}  // namespace

TEST_CASE("cudaGraphAddNode adds nodes of each kind, and each runs") {
  const Stream stream;
  const Event event;
  const DeviceBlock block{kNodeBytes};
  const PinnedBlock seen{kNodeBytes};
  int calls = 0;
  Graph child, all;
  cudaGraphNodeParams parameters = fill_of(block.get(), 3);
  static_cast<void>(add(child.graph, parameters));

  parameters = {};
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = child.graph;
  cudaGraphNode_t last = add(all.graph, parameters);
  parameters = copy_of(seen.get(), block.get());
  last = add(all.graph, parameters, {last});
  parameters = event_of(cudaGraphNodeTypeEventRecord, event);
  last = add(all.graph, parameters, {last});
  parameters = event_of(cudaGraphNodeTypeWaitEvent, event);
  last = add(all.graph, parameters, {last});
  parameters = {};
  parameters.type = cudaGraphNodeTypeEmpty;
  last = add(all.graph, parameters, {last});
  parameters = {};
  parameters.type = cudaGraphNodeTypeHost;
  parameters.host.fn = [](void* data) { ++*static_cast<int*>(data); };
  parameters.host.userData = &calls;
  last = add(all.graph, parameters, {last});
  all.launch(stream);
  CHECK(seen[kNodeBytes - 1] == 3);
  CHECK(calls == 1);
  CUDA_OK(cudaEventQuery(event));
}

TEST_CASE("an unknown kind of node is an invalid value, a moved child graph is not supported") {
  if (!is_virtual()) return;
  Graph all, child;
  cudaGraphNode_t node = nullptr;
  cudaGraphNodeParams parameters = {};
  parameters.type = static_cast<cudaGraphNodeType>(14);
  CHECK(cudaGraphAddNode(&node, all.graph, nullptr, nullptr, 0, &parameters) ==
        cudaErrorInvalidValue);
  parameters.type = cudaGraphNodeTypeGraph;
  parameters.graph.graph = child.graph;
  parameters.graph.ownership = static_cast<decltype(parameters.graph.ownership)>(1);
  CHECK(cudaGraphAddNode(&node, all.graph, nullptr, nullptr, 0, &parameters) ==
        cudaErrorNotSupported);
  CHECK(count_nodes(all.graph) == 0);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("an allocation node returns its address, and a free node frees it") {
  const Stream stream;
  const PinnedBlock seen{kNodeBytes};
  Graph all;
  cudaGraphNodeParams allocation = {};
  allocation.type = cudaGraphNodeTypeMemAlloc;
  allocation.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
  allocation.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
  allocation.alloc.bytesize = kNodeBytes;
  cudaGraphNode_t last = add(all.graph, allocation);
  REQUIRE(allocation.alloc.dptr != nullptr);
  cudaGraphNodeParams parameters = fill_of(allocation.alloc.dptr, 6);
  last = add(all.graph, parameters, {last});
  parameters = copy_of(seen.get(), allocation.alloc.dptr);
  last = add(all.graph, parameters, {last});
  parameters = {};
  parameters.type = cudaGraphNodeTypeMemFree;
  parameters.free.dptr = allocation.alloc.dptr;
  last = add(all.graph, parameters, {last});
  all.launch(stream);
  all.launch(stream);
  CHECK(seen[0] == 6);
  CHECK(cudaGraphNodeSetParams(last, &parameters) != cudaSuccess);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("parameters of any kind are changed in a graph and in an executable one") {
  const Stream stream;
  const DeviceBlock block{kNodeBytes};
  Graph all;
  cudaGraphNodeParams parameters = fill_of(block.get(), 1);
  const cudaGraphNode_t node = add(all.graph, parameters);
  parameters.memset.value = 2;
  CUDA_OK(cudaGraphNodeSetParams(node, &parameters));
  cudaMemsetParams known{};
  CUDA_OK(cudaGraphMemsetNodeGetParams(node, &known));
  CHECK(known.value == 2);
  all.launch(stream);
  CHECK(read(block) == millrace::test::all(kNodeBytes, 2));
  parameters.memset.value = 3;
  CUDA_OK(cudaGraphExecNodeSetParams(all.executable, node, &parameters));
  all.launch(stream);
  CHECK(read(block) == millrace::test::all(kNodeBytes, 3));
  CUDA_OK(cudaGraphMemsetNodeGetParams(node, &known));
  CHECK(known.value == 2);
  cudaGraphNodeParams other = {};
  other.type = cudaGraphNodeTypeHost;
  other.host.fn = [](void*) {};
  CHECK(cudaGraphNodeSetParams(node, &other) == cudaErrorInvalidValue);
  CHECK(cudaGraphNodeSetParams(node, nullptr) == cudaErrorInvalidValue);
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("the driver also adds and changes nodes of any kind") {
  const Stream stream;
  const DeviceBlock block{kNodeBytes}, other{kNodeBytes};
  CUDA_OK(cudaMemset(block.get(), 8, kNodeBytes));
  CUDA_OK(cudaDeviceSynchronize());
  Graph all;
  CUgraphNodeParams parameters = {};
  parameters.type = static_cast<decltype(parameters.type)>(cudaGraphNodeTypeMemcpy);
  CUDA_MEMCPY3D& copy = parameters.memcpy.copyParams;
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address_of(block.get());
  copy.dstDevice = address_of(other.get());
  copy.WidthInBytes = kNodeBytes;
  copy.Height = copy.Depth = 1;
  CUgraphNode node = nullptr;
  DRIVER_OK("cuGraphAddNode", &node, static_cast<CUgraph>(all.graph),
            static_cast<const CUgraphNode*>(nullptr), static_cast<const void*>(nullptr),
            std::size_t{0}, &parameters);
  all.launch(stream);
  CHECK(read(other) == millrace::test::all(kNodeBytes, 8));
  CUDA_OK(cudaMemset(other.get(), 0, kNodeBytes));
  CUDA_OK(cudaDeviceSynchronize());
  copy.WidthInBytes = 1;
  DRIVER_OK("cuGraphExecNodeSetParams", static_cast<CUgraphExec>(all.executable), node,
            &parameters);
  all.launch(stream);
  CHECK(read(other)[0] == 8);
  CHECK(read(other)[1] == 0);
}
