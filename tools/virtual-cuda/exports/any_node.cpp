// Functions for nodes of any kind, and the attributes of kernel nodes.

#include <algorithm>
#include <array>
#include <cstring>

#include "exports/graphs.hpp"
#include "exports/refuse.hpp"
#include "graph/executable.hpp"

namespace millrace::virtual_cuda {
namespace {

/** Makes work and stores it in a variant, unless there is an error. */
template <typename Kind, typename Make>
cudaError_t made(Work& out, Make make) {
  Kind work;
  const cudaError_t error = make(work);
  if (error == cudaSuccess) out = std::move(work);
  return error;
}

/** The answer for a kind of node that the virtual runtime or CUDA lacks. */
cudaError_t lacking(const char* function, int type) {
  switch (type) {
    case 8:  // the constants of CUgraphNodeType
    case 9:
      return refuse(function, "external semaphores");
    case 12:
      return refuse(function, "stream memory operations");
    default:
      return cudaErrorInvalidValue;
  }
}

/** Makes the work of nodes whose parameters alone describe it. */
cudaError_t any_work(const char* function, cudaGraph_t graph, const cudaGraphNodeParams& all,
                     Work& work) {
  switch (all.type) {
    case cudaGraphNodeTypeEmpty:
      work = EmptyWork{};
      return cudaSuccess;
    case cudaGraphNodeTypeKernel:
      return made<KernelWork>(work, [&](KernelWork& out) { return kernel_work(&all.kernel, out); });
    case cudaGraphNodeTypeMemcpy:
      return made<CopyWork>(work,
                            [&](CopyWork& out) { return copy_work(&all.memcpy.copyParams, out); });
    case cudaGraphNodeTypeMemset:
      return made<FillWork>(work, [&](FillWork& out) { return fill_work(&all.memset, out); });
    case cudaGraphNodeTypeHost:
      return made<HostWork>(work, [&](HostWork& out) { return host_work(&all.host, out); });
    case cudaGraphNodeTypeGraph:
      if (all.graph.ownership != 0) return refuse(function, "a child graph that changes its owner");
      return made<ChildWork>(
          work, [&](ChildWork& out) { return child_work(graph, all.graph.graph, out); });
    case cudaGraphNodeTypeEventRecord:
      return made<RecordWork>(
          work, [&](RecordWork& out) { return event_work(all.eventRecord.event, out.event); });
    case cudaGraphNodeTypeWaitEvent:
      return made<WaitWork>(
          work, [&](WaitWork& out) { return event_work(all.eventWait.event, out.event); });
    case cudaGraphNodeTypeMemFree:
      if (all.free.dptr == nullptr) return cudaErrorInvalidValue;
      work = FreeWork{all.free.dptr};
      return cudaSuccess;
    default:
      return lacking(function, all.type);
  }
}

/** Whether CUDA forbids changes of such nodes' parameters. */
bool is_fixed(cudaGraphNodeType type) {
  return type == cudaGraphNodeTypeMemAlloc || type == cudaGraphNodeTypeMemFree ||
         type == cudaGraphNodeTypeConditional;
}

cudaError_t set_work(cudaGraphNode_t node, Work work) {
  const Lock lock = lock_engine();
  if (node == nullptr || node->work.index() != work.index()) return cudaErrorInvalidValue;
  node->work = std::move(work);
  return cudaSuccess;
}

}  // namespace

cudaError_t add_any_node(const char* function, cudaGraphNode_t* made, cudaGraph_t graph,
                         const cudaGraphNode_t* after, std::size_t count,
                         cudaGraphNodeParams* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  if (parameters->type == cudaGraphNodeTypeMemAlloc)
    return add_allocation(made, graph, after, count, &parameters->alloc);
  if (parameters->type == cudaGraphNodeTypeConditional)
    return add_conditional(made, graph, after, count, &parameters->conditional, nullptr);
  Work work;
  const cudaError_t error = any_work(function, graph, *parameters, work);
  return add_node(made, graph, after, count, std::move(work), error);
}

cudaError_t set_any_node(const char* function, cudaGraphNode_t node,
                         const cudaGraphNodeParams* parameters) {
  if (node == nullptr || parameters == nullptr) return cudaErrorInvalidValue;
  if (is_fixed(parameters->type)) return cudaErrorNotSupported;
  Work work;
  const cudaError_t error = any_work(function, handle_of(node->graph), *parameters, work);
  return error != cudaSuccess ? error : set_work(node, std::move(work));
}

cudaError_t set_any_node(const char* function, cudaGraphExec_t executable, cudaGraphNode_t original,
                         const cudaGraphNodeParams* parameters) {
  if (!valid(executable)) return cudaErrorInvalidValue;
  return set_any_node(function, find_node(executable, original), parameters);
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

namespace {

constexpr std::size_t kAttributeBytes = 64;

/** The attributes that CUDA documents for kernel nodes (cudaLaunchAttributeID). */
bool is_attribute(int attribute) {
  constexpr std::array kKnown{1, 2, 4, 5, 8, 9, 10, 11, 13, 14};
  return std::find(kKnown.begin(), kKnown.end(), attribute) != kKnown.end();
}

bool is_kernel(cudaGraphNode_t node) {
  return node != nullptr && std::holds_alternative<KernelWork>(node->work);
}

cudaError_t get_attribute(cudaGraphNode_t node, int attribute, void* value) {
  if (value == nullptr || !is_attribute(attribute)) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (!is_kernel(node)) return cudaErrorInvalidValue;
  std::memcpy(value, node->attributes[attribute].data(), kAttributeBytes);
  return cudaSuccess;
}

cudaError_t set_attribute(cudaGraphNode_t node, int attribute, const void* value) {
  if (value == nullptr || !is_attribute(attribute)) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (!is_kernel(node)) return cudaErrorInvalidValue;
  std::memcpy(node->attributes[attribute].data(), value, kAttributeBytes);
  return cudaSuccess;
}

cudaError_t copy_attributes(cudaGraphNode_t to, cudaGraphNode_t from) {
  const Lock lock = lock_engine();
  if (!is_kernel(to) || !is_kernel(from)) return cudaErrorInvalidValue;
  to->attributes = from->attributes;
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaGraphNodeSetParams, (cudaGraphNode_t node, cudaGraphNodeParams* parameters),
              return set_any_node("cudaGraphNodeSetParams", node, parameters);)
MILLRACE_CALL(cudaGraphExecNodeSetParams,
              (cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraphNodeParams* parameters),
              return set_any_node("cudaGraphExecNodeSetParams", executable, node, parameters);)
MILLRACE_CALL(cudaGraphKernelNodeGetAttribute, (cudaGraphNode_t node, int attribute, void* value),
              return get_attribute(node, attribute, value);)
MILLRACE_CALL(cudaGraphKernelNodeSetAttribute,
              (cudaGraphNode_t node, int attribute, const void* value),
              return set_attribute(node, attribute, value);)
MILLRACE_CALL(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t to, cudaGraphNode_t from),
              return copy_attributes(to, from);)
