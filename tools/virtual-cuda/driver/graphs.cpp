#include <cstring>

#include "abi/functions.h"
#include "driver/boxes.hpp"
#include "driver/contexts.hpp"
#include "exports/edges.hpp"
#include "graph/executable.hpp"

using namespace millrace::virtual_cuda;

namespace {

#define MILLRACE_NODE CUgraphNode *made, CUgraph graph, const CUgraphNode *after, std::size_t count

/** The node's kernel is a CUfunction or, with the second version of the parameters, a CUkernel. */
cudaKernelNodeParams kernel_parameters(const CUDA_KERNEL_NODE_PARAMS& all, bool second) {
  const void* function = all.func;
  if (function == nullptr && second) function = all.kern;
  return {const_cast<void*>(function),
          {all.gridDimX, all.gridDimY, all.gridDimZ},
          {all.blockDimX, all.blockDimY, all.blockDimZ},
          all.sharedMemBytes,
          all.kernelParams,
          all.extra};
}

cudaError_t add_kernel(MILLRACE_NODE, const CUDA_KERNEL_NODE_PARAMS* all, bool second) {
  if (all == nullptr) return cudaErrorInvalidValue;
  const cudaKernelNodeParams parameters = kernel_parameters(*all, second);
  return MILLRACE_AS(cudaGraphAddKernelNode, made, graph, after, count, &parameters);
}

cudaError_t get_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* all, bool second) {
  if (all == nullptr) return cudaErrorInvalidValue;
  cudaKernelNodeParams found{};
  const cudaError_t error = MILLRACE_AS(cudaGraphKernelNodeGetParams, node, &found);
  if (error != cudaSuccess) return error;
  all->func = static_cast<CUfunction>(found.func);
  all->gridDimX = found.gridDim.x;
  all->gridDimY = found.gridDim.y;
  all->gridDimZ = found.gridDim.z;
  all->blockDimX = found.blockDim.x;
  all->blockDimY = found.blockDim.y;
  all->blockDimZ = found.blockDim.z;
  all->sharedMemBytes = found.sharedMemBytes;
  all->kernelParams = found.kernelParams;
  all->extra = found.extra;
  if (second) {
    all->kern = nullptr;
    all->ctx = nullptr;
  }
  return cudaSuccess;
}

cudaError_t set_kernel(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* all, bool second) {
  if (all == nullptr) return cudaErrorInvalidValue;
  const cudaKernelNodeParams parameters = kernel_parameters(*all, second);
  return MILLRACE_AS(cudaGraphKernelNodeSetParams, node, &parameters);
}

cudaError_t set_kernel(CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* all,
                       bool second) {
  if (all == nullptr) return cudaErrorInvalidValue;
  const cudaKernelNodeParams parameters = kernel_parameters(*all, second);
  return MILLRACE_AS(cudaGraphExecKernelNodeSetParams, executable, node, &parameters);
}

cudaError_t get_copy(CUgraphNode node, CUDA_MEMCPY3D* all) {
  if (all == nullptr) return cudaErrorInvalidValue;
  cudaMemcpy3DParms found{};
  const cudaError_t error = MILLRACE_AS(cudaGraphMemcpyNodeGetParams, node, &found);
  return error != cudaSuccess ? error : to_box(found, *all);
}

/** Converts the parameters of a node of any kind to the runtime's. */
cudaError_t any_parameters(const CUgraphNodeParams* all, cudaGraphNodeParams& out) {
  if (all == nullptr) return cudaErrorInvalidValue;
  out = {};
  out.type = all->type;
  switch (all->type) {
    case cudaGraphNodeTypeKernel:
      out.kernel = kernel_parameters(all->kernel, true);
      return cudaSuccess;
    case cudaGraphNodeTypeMemcpy:
      return from_box(&all->memcpy.copyParams, out.memcpy.copyParams);
    case cudaGraphNodeTypeMemset:
      out.memset = all->memset;
      return cudaSuccess;
    default:  // other kinds have the same parameters
      std::memcpy(out.reserved1, all->reserved1, sizeof out.reserved1);
      return cudaSuccess;
  }
}

cudaError_t add_any(const char* function, MILLRACE_NODE, CUgraphNodeParams* all) {
  cudaGraphNodeParams parameters{};
  cudaError_t error = any_parameters(all, parameters);
  if (error == cudaSuccess && all->type == cudaGraphNodeTypeConditional) {
    error =
        add_conditional(made, graph, after, count, &parameters.conditional, all->conditional.ctx);
    if (error == cudaSuccess) all->conditional.phGraph_out = parameters.conditional.phGraph_out;
    return error;
  }
  if (error == cudaSuccess) error = add_any_node(function, made, graph, after, count, &parameters);
  if (error == cudaSuccess && all->type == cudaGraphNodeTypeMemAlloc)
    all->alloc.dptr = parameters.alloc.dptr;
  return error;
}

// Before CUDA 12, a text described a failure. It is empty here.
cudaError_t instantiate_with_log(CUgraphExec* made, CUgraph graph, CUgraphNode* wrong, char* log,
                                 std::size_t log_bytes) {
  if (wrong != nullptr) *wrong = nullptr;
  if (log != nullptr && log_bytes != 0) *log = '\0';
  return MILLRACE_AS(cudaGraphInstantiateWithFlags, made, graph, 0);
}

cudaError_t update(CUgraphExec executable, CUgraph graph, CUgraphNode* wrong,
                   cudaGraphExecUpdateResult* result) {
  if (wrong == nullptr || result == nullptr) return cudaErrorInvalidValue;
  cudaGraphExecUpdateResultInfo info{};
  const cudaError_t error = MILLRACE_AS(cudaGraphExecUpdate, executable, graph, &info);
  *wrong = info.errorNode;
  *result = info.result;
  return error;
}

}  // namespace

MILLRACE_DRIVER_CALL(cuGraphCreate, (CUgraph * made, unsigned flags),
                     return MILLRACE_AS(cudaGraphCreate, made, flags);)
MILLRACE_DRIVER_CALL(cuGraphDestroy, (CUgraph graph), return MILLRACE_AS(cudaGraphDestroy, graph);)
MILLRACE_DRIVER_CALL(cuGraphClone, (CUgraph * made, CUgraph original),
                     return MILLRACE_AS(cudaGraphClone, made, original);)
MILLRACE_DRIVER_CALL(cuGraphNodeFindInClone,
                     (CUgraphNode * found, CUgraphNode original, CUgraph clone),
                     return MILLRACE_AS(cudaGraphNodeFindInClone, found, original, clone);)
MILLRACE_DRIVER_CALL(cuGraphDebugDotPrint, (CUgraph graph, const char* path, unsigned flags),
                     return MILLRACE_AS(cudaGraphDebugDotPrint, graph, path, flags);)
MILLRACE_DRIVER_CALL(cuGraphNodeGetType, (CUgraphNode node, cudaGraphNodeType* type),
                     return MILLRACE_AS(cudaGraphNodeGetType, node, type);)
MILLRACE_DRIVER_CALL(cuGraphDestroyNode, (CUgraphNode node),
                     return MILLRACE_AS(cudaGraphDestroyNode, node);)
MILLRACE_DRIVER_CALL(cuGraphGetNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count),
                     return MILLRACE_AS(cudaGraphGetNodes, graph, nodes, count);)
MILLRACE_DRIVER_CALL(cuGraphGetRootNodes, (CUgraph graph, CUgraphNode* nodes, std::size_t* count),
                     return MILLRACE_AS(cudaGraphGetRootNodes, graph, nodes, count);)

// Edges. The second versions have edge data, which is always zero here.

MILLRACE_EDGE_CALLS(MILLRACE_DRIVER_CALL, cuGraph)
MILLRACE_EDGE_CALLS_WITH_DATA(MILLRACE_DRIVER_CALL, cuGraph, _v2)

// Nodes

MILLRACE_CONTEXT_CALL(cuGraphAddKernelNode, (MILLRACE_NODE, const CUDA_KERNEL_NODE_PARAMS* all),
                      return add_kernel(made, graph, after, count, all, false);)
MILLRACE_CONTEXT_CALL(cuGraphAddKernelNode_v2, (MILLRACE_NODE, const CUDA_KERNEL_NODE_PARAMS* all),
                      return add_kernel(made, graph, after, count, all, true);)
MILLRACE_CONTEXT_CALL(cuGraphAddMemcpyNode, (MILLRACE_NODE, const CUDA_MEMCPY3D* all, void*),
                      cudaMemcpy3DParms parameters;
                      const cudaError_t error = from_box(all, parameters);
                      return error != cudaSuccess ? error
                                                  : MILLRACE_AS(cudaGraphAddMemcpyNode, made, graph,
                                                                after, count, &parameters);)
MILLRACE_CONTEXT_CALL(cuGraphAddMemsetNode, (MILLRACE_NODE, const cudaMemsetParams* all, void*),
                      return MILLRACE_AS(cudaGraphAddMemsetNode, made, graph, after, count, all);)
MILLRACE_CONTEXT_CALL(cuGraphAddHostNode, (MILLRACE_NODE, const cudaHostNodeParams* all),
                      return MILLRACE_AS(cudaGraphAddHostNode, made, graph, after, count, all);)
MILLRACE_CONTEXT_CALL(cuGraphAddChildGraphNode, (MILLRACE_NODE, CUgraph child),
                      return MILLRACE_AS(cudaGraphAddChildGraphNode, made, graph, after, count,
                                         child);)
MILLRACE_CONTEXT_CALL(cuGraphAddEmptyNode, (MILLRACE_NODE),
                      return MILLRACE_AS(cudaGraphAddEmptyNode, made, graph, after, count);)
MILLRACE_CONTEXT_CALL(cuGraphAddEventRecordNode, (MILLRACE_NODE, CUevent event),
                      return MILLRACE_AS(cudaGraphAddEventRecordNode, made, graph, after, count,
                                         event);)
MILLRACE_CONTEXT_CALL(cuGraphAddEventWaitNode, (MILLRACE_NODE, CUevent event),
                      return MILLRACE_AS(cudaGraphAddEventWaitNode, made, graph, after, count,
                                         event);)
MILLRACE_CONTEXT_CALL(cuGraphAddMemAllocNode, (MILLRACE_NODE, cudaMemAllocNodeParams* all),
                      return MILLRACE_AS(cudaGraphAddMemAllocNode, made, graph, after, count, all);)
MILLRACE_CONTEXT_CALL(cuGraphAddMemFreeNode, (MILLRACE_NODE, CUdeviceptr address),
                      return MILLRACE_AS(cudaGraphAddMemFreeNode, made, graph, after, count,
                                         pointer(address));)

MILLRACE_CONTEXT_CALL(cuGraphAddNode, (MILLRACE_NODE, CUgraphNodeParams* all),
                      return add_any("cuGraphAddNode", made, graph, after, count, all);)
MILLRACE_CONTEXT_CALL(cuGraphAddNode_v2,
                      (CUgraphNode * made, CUgraph graph, const CUgraphNode* after,
                       const cudaGraphEdgeData*, std::size_t count, CUgraphNodeParams* all),
                      return add_any("cuGraphAddNode", made, graph, after, count, all);)

MILLRACE_DRIVER_CALL(cuGraphConditionalHandleCreate,
                     (cudaGraphConditionalHandle * made, CUgraph graph, CUcontext context,
                      unsigned default_value, unsigned flags),
                     if (context != nullptr && !valid(context)) return cudaErrorDeviceUninitialized;
                     return create_condition(made, graph, context, default_value, flags);)

// Parameters of nodes

MILLRACE_DRIVER_CALL(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams* all),
                     cudaGraphNodeParams parameters{};
                     const cudaError_t error = any_parameters(all, parameters);
                     return error != cudaSuccess
                                ? error
                                : set_any_node("cuGraphNodeSetParams", node, &parameters);)
MILLRACE_DRIVER_CALL(cuGraphExecNodeSetParams,
                     (CUgraphExec executable, CUgraphNode node, CUgraphNodeParams* all),
                     cudaGraphNodeParams parameters{};
                     const cudaError_t error = any_parameters(all, parameters);
                     return error != cudaSuccess ? error
                                                 : set_any_node("cuGraphExecNodeSetParams",
                                                                executable, node, &parameters);)
MILLRACE_DRIVER_CALL(cuGraphKernelNodeGetAttribute, (CUgraphNode node, int attribute, void* value),
                     return MILLRACE_AS(cudaGraphKernelNodeGetAttribute, node, attribute, value);)
MILLRACE_DRIVER_CALL(cuGraphKernelNodeSetAttribute,
                     (CUgraphNode node, int attribute, const void* value),
                     return MILLRACE_AS(cudaGraphKernelNodeSetAttribute, node, attribute, value);)
MILLRACE_DRIVER_CALL(cuGraphKernelNodeCopyAttributes, (CUgraphNode to, CUgraphNode from),
                     return MILLRACE_AS(cudaGraphKernelNodeCopyAttributes, to, from);)

MILLRACE_DRIVER_CALL(cuGraphKernelNodeGetParams, (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* all),
                     return get_kernel(node, all, false);)
MILLRACE_DRIVER_CALL(cuGraphKernelNodeGetParams_v2,
                     (CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* all),
                     return get_kernel(node, all, true);)
MILLRACE_DRIVER_CALL(cuGraphKernelNodeSetParams,
                     (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* all),
                     return set_kernel(node, all, false);)
MILLRACE_DRIVER_CALL(cuGraphKernelNodeSetParams_v2,
                     (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* all),
                     return set_kernel(node, all, true);)
MILLRACE_DRIVER_CALL(cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D* all),
                     return get_copy(node, all);)
MILLRACE_DRIVER_CALL(cuGraphMemcpyNodeSetParams, (CUgraphNode node, const CUDA_MEMCPY3D* all),
                     cudaMemcpy3DParms parameters;
                     const cudaError_t error = from_box(all, parameters);
                     return error != cudaSuccess
                                ? error
                                : MILLRACE_AS(cudaGraphMemcpyNodeSetParams, node, &parameters);)
MILLRACE_DRIVER_CALL(cuGraphMemsetNodeGetParams, (CUgraphNode node, cudaMemsetParams* all),
                     return MILLRACE_AS(cudaGraphMemsetNodeGetParams, node, all);)
MILLRACE_DRIVER_CALL(cuGraphMemsetNodeSetParams, (CUgraphNode node, const cudaMemsetParams* all),
                     return MILLRACE_AS(cudaGraphMemsetNodeSetParams, node, all);)
MILLRACE_DRIVER_CALL(cuGraphHostNodeGetParams, (CUgraphNode node, cudaHostNodeParams* all),
                     return MILLRACE_AS(cudaGraphHostNodeGetParams, node, all);)
MILLRACE_DRIVER_CALL(cuGraphHostNodeSetParams, (CUgraphNode node, const cudaHostNodeParams* all),
                     return MILLRACE_AS(cudaGraphHostNodeSetParams, node, all);)
MILLRACE_DRIVER_CALL(cuGraphChildGraphNodeGetGraph, (CUgraphNode node, CUgraph* graph),
                     return MILLRACE_AS(cudaGraphChildGraphNodeGetGraph, node, graph);)
MILLRACE_DRIVER_CALL(cuGraphEventRecordNodeGetEvent, (CUgraphNode node, CUevent* event),
                     return MILLRACE_AS(cudaGraphEventRecordNodeGetEvent, node, event);)
MILLRACE_DRIVER_CALL(cuGraphEventRecordNodeSetEvent, (CUgraphNode node, CUevent event),
                     return MILLRACE_AS(cudaGraphEventRecordNodeSetEvent, node, event);)
MILLRACE_DRIVER_CALL(cuGraphEventWaitNodeGetEvent, (CUgraphNode node, CUevent* event),
                     return MILLRACE_AS(cudaGraphEventWaitNodeGetEvent, node, event);)
MILLRACE_DRIVER_CALL(cuGraphEventWaitNodeSetEvent, (CUgraphNode node, CUevent event),
                     return MILLRACE_AS(cudaGraphEventWaitNodeSetEvent, node, event);)
MILLRACE_DRIVER_CALL(cuGraphMemAllocNodeGetParams, (CUgraphNode node, cudaMemAllocNodeParams* all),
                     return MILLRACE_AS(cudaGraphMemAllocNodeGetParams, node, all);)
MILLRACE_DRIVER_CALL(cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* address),
                     return MILLRACE_AS(cudaGraphMemFreeNodeGetParams, node, address);)

// Executable graphs

MILLRACE_DRIVER_CALL(cuGraphInstantiate,
                     (CUgraphExec * made, CUgraph graph, CUgraphNode* wrong, char* log,
                      std::size_t log_bytes),
                     return instantiate_with_log(made, graph, wrong, log, log_bytes);)
MILLRACE_DRIVER_CALL(cuGraphInstantiate_v2,
                     (CUgraphExec * made, CUgraph graph, CUgraphNode* wrong, char* log,
                      std::size_t log_bytes),
                     return instantiate_with_log(made, graph, wrong, log, log_bytes);)
MILLRACE_DRIVER_CALL(cuGraphInstantiateWithFlags,
                     (CUgraphExec * made, CUgraph graph, unsigned long long flags),
                     return MILLRACE_AS(cudaGraphInstantiateWithFlags, made, graph, flags);)
MILLRACE_CONTEXT_TWINS(cuGraphInstantiateWithParams, ptsz,
                       (CUgraphExec * made, CUgraph graph, cudaGraphInstantiateParams* all),
                       return MILLRACE_AS(cudaGraphInstantiateWithParams, made, graph, all);)
MILLRACE_DRIVER_CALL(cuGraphExecGetFlags, (CUgraphExec executable, unsigned long long* flags),
                     return MILLRACE_AS(cudaGraphExecGetFlags, executable, flags);)
MILLRACE_DRIVER_CALL(cuGraphExecDestroy, (CUgraphExec executable),
                     return MILLRACE_AS(cudaGraphExecDestroy, executable);)
MILLRACE_DRIVER_CALL(cuGraphExecUpdate,
                     (CUgraphExec executable, CUgraph graph, CUgraphNode* wrong,
                      cudaGraphExecUpdateResult* result),
                     return update(executable, graph, wrong, result);)
MILLRACE_DRIVER_CALL(cuGraphExecUpdate_v2,
                     (CUgraphExec executable, CUgraph graph, cudaGraphExecUpdateResultInfo* info),
                     return MILLRACE_AS(cudaGraphExecUpdate, executable, graph, info);)
MILLRACE_CONTEXT_TWINS(cuGraphUpload, ptsz, (CUgraphExec executable, CUstream stream),
                       return MILLRACE_AS(cudaGraphUpload, executable, stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(cuGraphLaunch, ptsz, (CUgraphExec executable, CUstream stream),
                       return MILLRACE_AS(cudaGraphLaunch, executable, stream_of(stream, meaning));)
MILLRACE_DRIVER_CALL(cuGraphExecKernelNodeSetParams,
                     (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* all),
                     return set_kernel(executable, node, all, false);)
MILLRACE_DRIVER_CALL(cuGraphExecKernelNodeSetParams_v2,
                     (CUgraphExec executable, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* all),
                     return set_kernel(executable, node, all, true);)
MILLRACE_DRIVER_CALL(cuGraphExecMemcpyNodeSetParams,
                     (CUgraphExec executable, CUgraphNode node, const CUDA_MEMCPY3D* all, void*),
                     cudaMemcpy3DParms parameters;
                     const cudaError_t error = from_box(all, parameters);
                     return error != cudaSuccess ? error
                                                 : MILLRACE_AS(cudaGraphExecMemcpyNodeSetParams,
                                                               executable, node, &parameters);)
MILLRACE_DRIVER_CALL(cuGraphExecMemsetNodeSetParams,
                     (CUgraphExec executable, CUgraphNode node, const cudaMemsetParams* all, void*),
                     return MILLRACE_AS(cudaGraphExecMemsetNodeSetParams, executable, node, all);)
MILLRACE_DRIVER_CALL(cuGraphExecHostNodeSetParams,
                     (CUgraphExec executable, CUgraphNode node, const cudaHostNodeParams* all),
                     return MILLRACE_AS(cudaGraphExecHostNodeSetParams, executable, node, all);)
MILLRACE_DRIVER_CALL(cuGraphExecChildGraphNodeSetParams,
                     (CUgraphExec executable, CUgraphNode node, CUgraph child),
                     return MILLRACE_AS(cudaGraphExecChildGraphNodeSetParams, executable, node,
                                        child);)
MILLRACE_DRIVER_CALL(cuGraphExecEventRecordNodeSetEvent,
                     (CUgraphExec executable, CUgraphNode node, CUevent event),
                     return MILLRACE_AS(cudaGraphExecEventRecordNodeSetEvent, executable, node,
                                        event);)
MILLRACE_DRIVER_CALL(cuGraphExecEventWaitNodeSetEvent,
                     (CUgraphExec executable, CUgraphNode node, CUevent event),
                     return MILLRACE_AS(cudaGraphExecEventWaitNodeSetEvent, executable, node,
                                        event);)
MILLRACE_DRIVER_CALL(cuGraphNodeSetEnabled,
                     (CUgraphExec executable, CUgraphNode node, unsigned enabled),
                     return MILLRACE_AS(cudaGraphNodeSetEnabled, executable, node, enabled);)
MILLRACE_DRIVER_CALL(cuGraphNodeGetEnabled,
                     (CUgraphExec executable, CUgraphNode node, unsigned* enabled),
                     return MILLRACE_AS(cudaGraphNodeGetEnabled, executable, node, enabled);)

// User objects

MILLRACE_DRIVER_CALL(cuUserObjectCreate,
                     (CUuserObject * made, void* object, cudaHostFn_t destroy, unsigned references,
                      unsigned flags),
                     return MILLRACE_AS(cudaUserObjectCreate, made, object, destroy, references,
                                        flags);)
MILLRACE_DRIVER_CALL(cuUserObjectRetain, (CUuserObject user, unsigned references),
                     return MILLRACE_AS(cudaUserObjectRetain, user, references);)
MILLRACE_DRIVER_CALL(cuUserObjectRelease, (CUuserObject user, unsigned references),
                     return MILLRACE_AS(cudaUserObjectRelease, user, references);)
MILLRACE_DRIVER_CALL(cuGraphRetainUserObject,
                     (CUgraph graph, CUuserObject user, unsigned references, unsigned flags),
                     return MILLRACE_AS(cudaGraphRetainUserObject, graph, user, references, flags);)
MILLRACE_DRIVER_CALL(cuGraphReleaseUserObject,
                     (CUgraph graph, CUuserObject user, unsigned references),
                     return MILLRACE_AS(cudaGraphReleaseUserObject, graph, user, references);)
