// Functions whose parameters are different in the runtime of CUDA 13.

#include <cstring>

#include "exports/edges.hpp"
#include "exports/managed.hpp"
#include "exports/memory.hpp"
#include "exports/texture_calls.hpp"
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

}  // namespace

MILLRACE_CALL(cudaGetDeviceProperties, (cudaDeviceProp * all, int device),
              return properties(all, device);)
MILLRACE_CALL(cudaPointerGetAttributes, (cudaPointerAttributes * all, const void* address),
              if (all == nullptr) return cudaErrorInvalidValue;
              const Lock lock = lock_engine(); *all = pointer_attributes(address);
              return cudaSuccess;)
MILLRACE_CAPTURE_CALLS_WITH_DATA(MILLRACE_TWINS, cudaStream, , )
MILLRACE_EDGE_CALLS_WITH_DATA(MILLRACE_CALL, cudaGraph, )
MILLRACE_TWINS(cudaMemPrefetchAsync, ptsz,
               (const void* address, std::size_t bytes, cudaMemLocation location, unsigned flags,
                cudaStream_t stream),
               return prefetch(find_stream(stream, meaning), address, bytes, location, flags);)
MILLRACE_CALL(cudaMemAdvise,
              (const void* address, std::size_t bytes, cudaMemoryAdvise advice,
               cudaMemLocation location),
              return advise(address, bytes, advice, location);)
#define MILLRACE_PREFETCH_BATCH(name)                                                       \
  MILLRACE_TWINS(                                                                           \
      name, ptsz,                                                                           \
      (void** addresses, std::size_t* bytes, std::size_t count, cudaMemLocation* locations, \
       std::size_t* firsts, std::size_t location_count, unsigned long long flags,           \
       cudaStream_t stream),                                                                \
      return prefetch_batch(find_stream(stream, meaning),                                   \
                            {addresses, bytes, count, locations, firsts, location_count}, flags);)
MILLRACE_PREFETCH_BATCH(cudaMemPrefetchBatchAsync)
MILLRACE_PREFETCH_BATCH(cudaMemDiscardAndPrefetchBatchAsync)
#undef MILLRACE_PREFETCH_BATCH
MILLRACE_TWINS(cudaMemDiscardBatchAsync, ptsz,
               (void** addresses, std::size_t* bytes, std::size_t count, unsigned long long flags,
                cudaStream_t stream),
               return discard_batch(find_stream(stream, meaning), addresses, bytes, count, flags);)
MILLRACE_TWINS(cudaMemcpyBatchAsync, ptsz,
               (void* const* to, const void* const* from, const std::size_t* bytes,
                std::size_t count, cudaMemcpyAttributes*, std::size_t*, std::size_t,
                cudaStream_t stream),
               return copy_batch(find_stream(stream, meaning), to, from, bytes, count, nullptr);)
MILLRACE_CALL(cudaGraphAddNode,
              (cudaGraphNode_t * made, cudaGraph_t graph, const cudaGraphNode_t* after,
               const cudaGraphEdgeData*, std::size_t count, cudaGraphNodeParams* parameters),
              return add_any_node("cudaGraphAddNode", made, graph, after, count, parameters);)
MILLRACE_CALL(cudaMemGetDefaultMemPool,
              (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
              return get_pool(pool, location, type, WhichPool::usual);)
MILLRACE_CALL(cudaMemGetMemPool,
              (cudaMemPool_t * pool, cudaMemLocation* location, cudaMemAllocationType type),
              return get_pool(pool, location, type, WhichPool::current);)
MILLRACE_CALL(cudaMemSetMemPool,
              (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t pool),
              return set_pool(location, type, pool);)
MILLRACE_TEXTURE_CALLS(sizeof(cudaResourceDesc), sizeof(cudaResourceViewDesc))
