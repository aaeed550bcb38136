#include <algorithm>

#include "check/checker.hpp"
#include "engine/kernels.hpp"
#include "exports/graphs.hpp"
#include "exports/transfer.hpp"

namespace millrace::virtual_cuda {
namespace {

Lock lock_graphs() { return lock_engine(); }

/** Fills an array of the program as CUDA does. With null, it only returns the number. */
void give(const std::vector<cudaGraphNode_t>& found, cudaGraphNode_t* nodes,
          cudaGraphEdgeData* data, std::size_t* count) {
  if (nodes != nullptr) {
    const std::size_t room = *count;
    for (std::size_t i = 0; i < room; ++i) nodes[i] = i < found.size() ? found[i] : nullptr;
    for (std::size_t i = 0; data != nullptr && i < room; ++i) data[i] = {};
  }
  *count = nodes == nullptr ? found.size() : std::min(*count, found.size());
}

}  // namespace

cudaError_t graph_edges(cudaGraph_t handle, cudaGraphNode_t* from, cudaGraphNode_t* to,
                        cudaGraphEdgeData* data, std::size_t* count) {
  const Lock lock = lock_graphs();
  const Graph* const graph = find_graph(handle);
  if (graph == nullptr || count == nullptr) return cudaErrorInvalidValue;
  std::vector<cudaGraphNode_t> starts;
  std::vector<cudaGraphNode_t> ends;
  for (const auto& node : graph->nodes)
    for (const cudaGraphNode_t earlier : node->after) {
      starts.push_back(earlier);
      ends.push_back(node.get());
    }
  std::size_t room = *count;
  give(ends, to, data, &room);
  give(starts, from, data, count);
  return cudaSuccess;
}

cudaError_t node_dependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
                              std::size_t* count) {
  if (node == nullptr || count == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_graphs();
  give(node->after, nodes, data, count);
  return cudaSuccess;
}

cudaError_t node_dependents(cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
                            std::size_t* count) {
  if (node == nullptr || count == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_graphs();
  give(node->graph->dependents(node), nodes, data, count);
  return cudaSuccess;
}

cudaError_t add_edges(cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                      std::size_t count) {
  const Lock lock = lock_graphs();
  Graph* const graph = find_graph(handle);
  if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr)))
    return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i) {
    if (!graph->owns(from[i]) || !graph->owns(to[i]) || from[i] == to[i])
      return cudaErrorInvalidValue;
    std::vector<cudaGraphNode_t>& after = to[i]->after;
    if (std::find(after.begin(), after.end(), from[i]) != after.end()) return cudaErrorInvalidValue;
    after.push_back(from[i]);
  }
  return cudaSuccess;
}

cudaError_t remove_edges(cudaGraph_t handle, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                         std::size_t count) {
  const Lock lock = lock_graphs();
  Graph* const graph = find_graph(handle);
  if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr)))
    return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i)
    if (!graph->owns(from[i]) || !graph->owns(to[i]) || std::erase(to[i]->after, from[i]) == 0)
      return cudaErrorInvalidValue;
  return cudaSuccess;
}

cudaError_t add_node(cudaGraphNode_t* made, cudaGraph_t handle, const cudaGraphNode_t* after,
                     std::size_t count, Work work, cudaError_t error) {
  if (error != cudaSuccess) return error;
  const Lock lock = lock_graphs();
  Graph* const graph = find_graph(handle);
  if (graph == nullptr || made == nullptr || (after == nullptr && count != 0))
    return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i)
    if (!graph->owns(after[i])) return cudaErrorInvalidValue;
  *made = graph->add(std::move(work), {after, after + count});
  return cudaSuccess;
}

cudaError_t kernel_work(const cudaKernelNodeParams* parameters, KernelWork& work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  work.kernel = find_kernel(parameters->func);
  if (work.kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  work.grid = parameters->gridDim;
  work.block = parameters->blockDim;
  work.shared_bytes = parameters->sharedMemBytes;
  if (work.kernel->host_kernel != nullptr && parameters->kernelParams != nullptr)
    copy_arguments(work, parameters->kernelParams);
  const Lock lock = lock_graphs();
  cost_bytes_of_pointers(work, parameters->kernelParams);
  if (Checker* const check = checker())
    work.accesses = check->accesses_of_kernel(work, parameters->kernelParams);
  return cudaSuccess;
}

cudaError_t copy_work(const cudaMemcpy3DParms* parameters, CopyWork& work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = from_parameters(*parameters, work); error != cudaSuccess)
    return error;
  const Lock lock = lock_graphs();
  return set_direction(work);
}

cudaError_t row_work(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                     CopyWork& work) {
  work = {plane(to), plane(from), bytes, 1, 1, Direction::on_device, kind, {}};
  const Lock lock = lock_graphs();
  return set_direction(work);
}

cudaError_t fill_work(const cudaMemsetParams* parameters, FillWork& work) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const unsigned element = parameters->elementSize;
  if (element != 1 && element != 2 && element != 4) return cudaErrorInvalidValue;
  work = {plane(parameters->dst, parameters->pitch),
          parameters->value,
          element,
          parameters->width,
          parameters->height,
          1};
  return cudaSuccess;
}

cudaError_t host_work(const cudaHostNodeParams* parameters, HostWork& work) {
  if (parameters == nullptr || parameters->fn == nullptr) return cudaErrorInvalidValue;
  work = {parameters->fn, parameters->userData, {}, {}};
  return cudaSuccess;
}

cudaError_t event_work(cudaEvent_t event, EventRef& ref) {
  if (!valid(event)) return cudaErrorInvalidResourceHandle;
  ref = {event, event->generation};
  return cudaSuccess;
}

cudaError_t child_work(cudaGraph_t graph, cudaGraph_t child, ChildWork& work) {
  const Lock lock = lock_graphs();
  const Graph* const found = find_graph(child);
  if (found == nullptr || child == graph) return cudaErrorInvalidValue;
  if (has_conditional(*found)) return cudaErrorNotSupported;
  work.graph = found->clone_for_child_node();
  return cudaSuccess;
}

cudaError_t add_allocation(cudaGraphNode_t* made, cudaGraph_t handle, const cudaGraphNode_t* after,
                           std::size_t count, cudaMemAllocNodeParams* parameters) {
  if (parameters == nullptr || parameters->bytesize == 0) return cudaErrorInvalidValue;
  if (parameters->poolProps.location.type != cudaMemLocationTypeDevice ||
      !is_gpu(parameters->poolProps.location.id))
    return cudaErrorInvalidValue;
  AllocWork work{nullptr, parameters->bytesize, parameters->poolProps};
  {
    const Lock lock = lock_graphs();
    Graph* const graph = find_graph(handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    work.address = runtime().graph_memory.take(
        static_cast<unsigned>(parameters->poolProps.location.id), parameters->bytesize);
    if (work.address == nullptr) return cudaErrorMemoryAllocation;
    graph->memory->insert(work.address);
  }
  parameters->dptr = work.address;
  return add_node(made, handle, after, count, work);
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

namespace {

cudaError_t add_symbol_copy(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                            std::size_t count, void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaError_t symbol) {
  if (symbol != cudaSuccess) return symbol;
  CopyWork work;
  const cudaError_t error = row_work(to, from, bytes, kind, work);
  return add_node(made, graph, after, count, std::move(work), error);
}

}  // namespace

#define MILLRACE_NODE \
  cudaGraphNode_t *made, cudaGraph_t graph, const cudaGraphNode_t *after, std::size_t count

MILLRACE_CALL(cudaGraphAddEmptyNode, (MILLRACE_NODE),
              return add_node(made, graph, after, count, EmptyWork{});)
MILLRACE_CALL(cudaGraphAddKernelNode, (MILLRACE_NODE, const cudaKernelNodeParams* parameters),
              KernelWork work;
              const cudaError_t error = kernel_work(parameters, work);
              return add_node(made, graph, after, count, std::move(work), error);)
MILLRACE_CALL(cudaGraphAddMemcpyNode, (MILLRACE_NODE, const cudaMemcpy3DParms* parameters),
              CopyWork work;
              const cudaError_t error = copy_work(parameters, work);
              return add_node(made, graph, after, count, std::move(work), error);)
MILLRACE_CALL(cudaGraphAddMemcpyNode1D,
              (MILLRACE_NODE, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind),
              CopyWork work;
              const cudaError_t error = row_work(to, from, bytes, kind, work);
              return add_node(made, graph, after, count, std::move(work), error);)
MILLRACE_CALL(cudaGraphAddMemcpyNodeToSymbol,
              (MILLRACE_NODE, const void* symbol, const void* from, std::size_t bytes,
               std::size_t offset, cudaMemcpyKind kind),
              void* to = nullptr;
              const cudaError_t error = symbol_address(symbol, offset, bytes, &to);
              return add_symbol_copy(made, graph, after, count, to, from, bytes, kind, error);)
MILLRACE_CALL(cudaGraphAddMemcpyNodeFromSymbol,
              (MILLRACE_NODE, void* to, const void* symbol, std::size_t bytes, std::size_t offset,
               cudaMemcpyKind kind),
              void* from = nullptr;
              const cudaError_t error = symbol_address(symbol, offset, bytes, &from);
              return add_symbol_copy(made, graph, after, count, to, from, bytes, kind, error);)
MILLRACE_CALL(cudaGraphAddMemsetNode, (MILLRACE_NODE, const cudaMemsetParams* parameters),
              FillWork work;
              const cudaError_t error = fill_work(parameters, work);
              return add_node(made, graph, after, count, work, error);)
MILLRACE_CALL(cudaGraphAddHostNode, (MILLRACE_NODE, const cudaHostNodeParams* parameters),
              HostWork work;
              const cudaError_t error = host_work(parameters, work);
              return add_node(made, graph, after, count, work, error);)
MILLRACE_CALL(cudaGraphAddChildGraphNode, (MILLRACE_NODE, cudaGraph_t child), ChildWork work;
              const cudaError_t error = child_work(graph, child, work);
              return add_node(made, graph, after, count, std::move(work), error);)
MILLRACE_CALL(cudaGraphAddEventRecordNode, (MILLRACE_NODE, cudaEvent_t event), RecordWork work;
              const cudaError_t error = event_work(event, work.event);
              return add_node(made, graph, after, count, work, error);)
MILLRACE_CALL(cudaGraphAddEventWaitNode, (MILLRACE_NODE, cudaEvent_t event), WaitWork work;
              const cudaError_t error = event_work(event, work.event);
              return add_node(made, graph, after, count, work, error);)
MILLRACE_CALL(cudaGraphAddMemAllocNode, (MILLRACE_NODE, cudaMemAllocNodeParams* parameters),
              return add_allocation(made, graph, after, count, parameters);)
MILLRACE_CALL(cudaGraphAddMemFreeNode, (MILLRACE_NODE, void* address),
              return add_node(made, graph, after, count, FreeWork{address},
                              address == nullptr ? cudaErrorInvalidValue : cudaSuccess);)
