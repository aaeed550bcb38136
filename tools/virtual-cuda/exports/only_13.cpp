// What the runtime of CUDA 13 exports under its own parameters.

#include <cstring>

#include "exports/captures.hpp"
#include "exports/graphs.hpp"
#include "exports/memory.hpp"
#include "exports/transfer.hpp"
#include "exports/versions.hpp"

#define MILLRACE_OWN_ROWS_13 1
#include "exports/refused.inc"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace millrace::virtual_cuda {
const int kRuntimeVersion = 13000;
}  // namespace millrace::virtual_cuda

namespace {

cudaError_t properties(cudaDeviceProp* all, int device) {
  if (all == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  *all = runtime().gpus[static_cast<std::size_t>(device)]->properties();
  return cudaSuccess;
}

cudaError_t pool_at(cudaMemPool_t* pool, const cudaMemLocation* location,
                    cudaMemAllocationType type, cudaMemPool_t Gpu::*which) {
  if (pool == nullptr || location == nullptr) return cudaErrorInvalidValue;
  if (type != cudaMemAllocationTypePinned || location->type != cudaMemLocationTypeDevice)
    return cudaErrorNotSupported;
  if (!is_gpu(location->id)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  *pool = runtime().gpus[static_cast<std::size_t>(location->id)].get()->*which;
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaGetDeviceProperties, (cudaDeviceProp * all, int device),
              return properties(all, device);)
MILLRACE_CALL(cudaPointerGetAttributes, (cudaPointerAttributes * all, const void* address),
              if (all == nullptr) return cudaErrorInvalidValue;
              const Lock lock = lock_engine(); *all = pointer_attributes(address);
              return cudaSuccess;)
MILLRACE_TWINS(cudaStreamGetCaptureInfo, ptsz,
               (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                std::size_t* count),
               return capture_info(find_stream(stream, meaning),
                                   {status, id, graph, nodes, edges, count});)
MILLRACE_TWINS(cudaStreamUpdateCaptureDependencies, ptsz,
               (cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                std::size_t count, unsigned flags),
               return update_dependencies(find_stream(stream, meaning), nodes, count, flags);)
MILLRACE_CALL(cudaGraphGetEdges,
              (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
               cudaGraphEdgeData* data, std::size_t* count),
              return graph_edges(graph, from, to, data, count);)
MILLRACE_CALL(cudaGraphNodeGetDependencies,
              (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
               std::size_t* count),
              return node_dependencies(node, nodes, data, count);)
MILLRACE_CALL(cudaGraphNodeGetDependentNodes,
              (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
               std::size_t* count),
              return node_dependents(node, nodes, data, count);)
MILLRACE_CALL(cudaGraphAddDependencies,
              (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
               const cudaGraphEdgeData*, std::size_t count),
              return add_edges(graph, from, to, count);)
MILLRACE_CALL(cudaGraphRemoveDependencies,
              (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
               const cudaGraphEdgeData*, std::size_t count),
              return remove_edges(graph, from, to, count);)
MILLRACE_TWINS(cudaMemPrefetchAsync, ptsz,
               (const void*, std::size_t, cudaMemLocation, unsigned, cudaStream_t stream),
               return prefetch(find_stream(stream, meaning));)
MILLRACE_TWINS(cudaMemcpyBatchAsync, ptsz,
               (void* const* to, const void* const* from, const std::size_t* bytes,
                std::size_t count, cudaMemcpyAttributes*, std::size_t*, std::size_t,
                cudaStream_t stream),
               return copy_batch(find_stream(stream, meaning), to, from, bytes, count, nullptr);)
MILLRACE_CALL(cudaMemGetDefaultMemPool,
              (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
              return pool_at(pool, location, type, &Gpu::default_pool);)
MILLRACE_CALL(cudaMemGetMemPool,
              (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
              return pool_at(pool, location, type, &Gpu::current_pool);)
