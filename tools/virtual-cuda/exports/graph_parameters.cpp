#include "engine/kernels.hpp"
#include "exports/graphs.hpp"
#include "exports/transfer.hpp"
#include "graph/executable.hpp"

using namespace millrace::virtual_cuda;

namespace {

template <typename Kind>
Kind* work_of(cudaGraphNode_t node) {
  return node == nullptr ? nullptr : std::get_if<Kind>(&node->work);
}

/** Calls `read` with the node's work, if it is of this kind. */
template <typename Kind, typename Out, typename Read>
cudaError_t get(cudaGraphNode_t node, Out* out, Read read) {
  const Lock lock = lock_engine();
  const Kind* const work = work_of<Kind>(node);
  if (work == nullptr || out == nullptr) return cudaErrorInvalidValue;
  *out = read(*work);
  return cudaSuccess;
}

/** Replaces the work of a node of the same kind, unless making the work failed with `error`. */
template <typename Kind>
cudaError_t set(cudaGraphNode_t node, Kind work, cudaError_t error) {
  if (error != cudaSuccess) return error;
  const Lock lock = lock_engine();
  Kind* const old = work_of<Kind>(node);
  if (old == nullptr) return cudaErrorInvalidValue;
  *old = std::move(work);
  return cudaSuccess;
}

template <typename Kind>
cudaError_t set(cudaGraphExec_t executable, cudaGraphNode_t original, Kind work,
                cudaError_t error) {
  if (!valid(executable)) return cudaErrorInvalidValue;
  return set(find_node(executable, original), std::move(work), error);
}

cudaKernelNodeParams parameters_of(const KernelWork& work) {
  return {const_cast<void*>(work.kernel->host_function), work.grid, work.block,
          static_cast<unsigned>(work.shared_bytes),      nullptr,   nullptr};
}

cudaMemsetParams parameters_of(const FillWork& work) {
  return {work.to.base, work.to.pitch, work.value, work.element, work.width, work.height};
}

cudaError_t set_child(cudaGraphExec_t executable, cudaGraphNode_t original, cudaGraph_t child) {
  if (!valid(executable)) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const cudaGraphNode_t node = find_node(executable, original);
  ChildWork* const work = work_of<ChildWork>(node);
  const Graph* const graph = find_graph(child);
  if (work == nullptr || graph == nullptr) return cudaErrorInvalidValue;
  if (has_conditional(*graph)) return cudaErrorNotSupported;
  work->graph = graph->clone_for_child_node();
  return cudaSuccess;
}

}  // namespace

// Kernels
MILLRACE_CALL(cudaGraphKernelNodeGetParams,
              (cudaGraphNode_t node, cudaKernelNodeParams* parameters),
              return get<KernelWork>(node, parameters,
                                     [](const KernelWork& work) { return parameters_of(work); });)
MILLRACE_CALL(cudaGraphKernelNodeSetParams,
              (cudaGraphNode_t node, const cudaKernelNodeParams* parameters), KernelWork work;
              const cudaError_t error = kernel_work(parameters, work);
              return set(node, std::move(work), error);)
MILLRACE_CALL(cudaGraphExecKernelNodeSetParams,
              (cudaGraphExec_t executable, cudaGraphNode_t node,
               const cudaKernelNodeParams* parameters),
              KernelWork work;
              const cudaError_t error = kernel_work(parameters, work);
              return set(executable, node, std::move(work), error);)

// Copies
MILLRACE_CALL(cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t node, cudaMemcpy3DParms* parameters),
              return get<CopyWork>(node, parameters,
                                   [](const CopyWork& work) { return to_parameters(work); });)
MILLRACE_CALL(cudaGraphMemcpyNodeSetParams,
              (cudaGraphNode_t node, const cudaMemcpy3DParms* parameters), CopyWork work;
              const cudaError_t error = copy_work(parameters, work);
              return set(node, std::move(work), error);)
MILLRACE_CALL(cudaGraphMemcpyNodeSetParams1D,
              (cudaGraphNode_t node, void* to, const void* from, std::size_t bytes,
               cudaMemcpyKind kind),
              CopyWork work;
              const cudaError_t error = row_work(to, from, bytes, kind, work);
              return set(node, std::move(work), error);)
MILLRACE_CALL(cudaGraphExecMemcpyNodeSetParams,
              (cudaGraphExec_t executable, cudaGraphNode_t node,
               const cudaMemcpy3DParms* parameters),
              CopyWork work;
              const cudaError_t error = copy_work(parameters, work);
              return set(executable, node, std::move(work), error);)
MILLRACE_CALL(cudaGraphExecMemcpyNodeSetParams1D,
              (cudaGraphExec_t executable, cudaGraphNode_t node, void* to, const void* from,
               std::size_t bytes, cudaMemcpyKind kind),
              CopyWork work;
              const cudaError_t error = row_work(to, from, bytes, kind, work);
              return set(executable, node, std::move(work), error);)

// Fills
MILLRACE_CALL(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams* parameters),
              return get<FillWork>(node, parameters,
                                   [](const FillWork& work) { return parameters_of(work); });)
MILLRACE_CALL(cudaGraphMemsetNodeSetParams,
              (cudaGraphNode_t node, const cudaMemsetParams* parameters), FillWork work;
              const cudaError_t error = fill_work(parameters, work); return set(node, work, error);)
MILLRACE_CALL(cudaGraphExecMemsetNodeSetParams,
              (cudaGraphExec_t executable, cudaGraphNode_t node,
               const cudaMemsetParams* parameters),
              FillWork work;
              const cudaError_t error = fill_work(parameters, work);
              return set(executable, node, work, error);)

// Host functions
MILLRACE_CALL(cudaGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams* parameters),
              return get<HostWork>(node, parameters, [](const HostWork& work) {
                return cudaHostNodeParams{work.function, work.data};
              });)
MILLRACE_CALL(cudaGraphHostNodeSetParams,
              (cudaGraphNode_t node, const cudaHostNodeParams* parameters), HostWork work;
              const cudaError_t error = host_work(parameters, work); return set(node, work, error);)
MILLRACE_CALL(cudaGraphExecHostNodeSetParams,
              (cudaGraphExec_t executable, cudaGraphNode_t node,
               const cudaHostNodeParams* parameters),
              HostWork work;
              const cudaError_t error = host_work(parameters, work);
              return set(executable, node, work, error);)

// Child graphs
MILLRACE_CALL(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* graph),
              return get<ChildWork>(node, graph, [](const ChildWork& work) {
                return handle_of(work.graph.get());
              });)
MILLRACE_CALL(cudaGraphExecChildGraphNodeSetParams,
              (cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child),
              return set_child(executable, node, child);)

// Events
MILLRACE_CALL(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
              return get<RecordWork>(node, event,
                                     [](const RecordWork& work) { return work.event.event; });)
MILLRACE_CALL(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
              RecordWork work;
              const cudaError_t error = event_work(event, work.event);
              return set(node, work, error);)
MILLRACE_CALL(cudaGraphExecEventRecordNodeSetEvent,
              (cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event),
              RecordWork work;
              const cudaError_t error = event_work(event, work.event);
              return set(executable, node, work, error);)
MILLRACE_CALL(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t node, cudaEvent_t* event),
              return get<WaitWork>(node, event,
                                   [](const WaitWork& work) { return work.event.event; });)
MILLRACE_CALL(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t node, cudaEvent_t event),
              WaitWork work;
              const cudaError_t error = event_work(event, work.event);
              return set(node, work, error);)
MILLRACE_CALL(cudaGraphExecEventWaitNodeSetEvent,
              (cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event), WaitWork work;
              const cudaError_t error = event_work(event, work.event);
              return set(executable, node, work, error);)

// Memory
MILLRACE_CALL(
    cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t node, cudaMemAllocNodeParams* parameters),
    return get<AllocWork>(node, parameters, [](const AllocWork& work) {
      return cudaMemAllocNodeParams{work.properties, nullptr, 0, work.bytes, work.address};
    });)
MILLRACE_CALL(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* address),
              return get<FreeWork>(node, static_cast<void**>(address),
                                   [](const FreeWork& work) { return work.address; });)
