// Functions whose parameters are different in the runtime of CUDA 12.

#include <cstring>

#include "exports/edges.hpp"
#include "exports/managed.hpp"
#include "exports/memory.hpp"
#include "exports/texture_calls.hpp"
#include "exports/transfer.hpp"
#include "exports/versions.hpp"

#define MILLRACE_OWN_ROWS_12 1
#include "exports/refused.inc"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace millrace::virtual_cuda {
const int kRuntimeVersion = 12090;
}  // namespace millrace::virtual_cuda

static_assert(sizeof(cudaDeviceProp_v12) == 1032);
static_assert(sizeof(cudaPointerAttributes_v12) == 24);

extern "C" cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);
extern "C" cudaError_t cudaDeviceSynchronize();

namespace {

void copy_field(auto& to, const auto& from) { std::memcpy(&to, &from, sizeof to); }

cudaError_t properties(cudaDeviceProp_v12* all, int device) {
  if (all == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  const Gpu& gpu = *runtime().gpus[static_cast<std::size_t>(device)];
  const cudaDeviceProp known = gpu.properties();
  *all = {};
#define MILLRACE_CUDA_FIELD_12(type, name, count)
#define MILLRACE_CUDA_FIELD_13(type, name, count)
#define MILLRACE_CUDA_FIELD(type, name, count) copy_field(all->name, known.name);
#include "abi/device_prop.def"
#undef MILLRACE_CUDA_FIELD
#undef MILLRACE_CUDA_FIELD_12
#undef MILLRACE_CUDA_FIELD_13
  static_cast<void>(gpu.attribute(cudaDevAttrClockRate, all->clockRate));
  static_cast<void>(gpu.attribute(cudaDevAttrMemoryClockRate, all->memoryClockRate));
  static_cast<void>(gpu.attribute(cudaDevAttrSingleToDoublePrecisionPerfRatio,
                                  all->singleToDoublePrecisionPerfRatio));
  static_cast<void>(gpu.attribute(cudaDevAttrMaxTexture1DLinearWidth, all->maxTexture1DLinear));
  all->deviceOverlap = 1;
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaGetDeviceProperties_v2, (cudaDeviceProp_v12 * all, int device),
              return properties(all, device);)
MILLRACE_CALL(cudaPointerGetAttributes, (cudaPointerAttributes_v12 * all, const void* address),
              if (all == nullptr) return cudaErrorInvalidValue;
              const Lock lock = lock_engine();
              const cudaPointerAttributes known = pointer_attributes(address);
              *all = {known.type, known.device, known.devicePointer, known.hostPointer};
              return cudaSuccess;)
MILLRACE_CALL(cudaGetDeviceProperties, (void*, int),
              return refuse("cudaGetDeviceProperties", "the layout of CUDA 11");)
MILLRACE_TWINS(cudaMemcpyBatchAsync, ptsz,
               (void** to, void** from, std::size_t* bytes, std::size_t count,
                cudaMemcpyAttributes*, std::size_t*, std::size_t, std::size_t* failed,
                cudaStream_t stream),
               return copy_batch(find_stream(stream, meaning), to, from, bytes, count, failed);)
MILLRACE_CALL(cudaEventElapsedTime_v2, (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
              return cudaEventElapsedTime(milliseconds, start, end);)
MILLRACE_CALL(cudaThreadSynchronize, (), return cudaDeviceSynchronize();)
MILLRACE_CALL(cudaThreadExit, (), return cudaDeviceSynchronize();)
MILLRACE_CAPTURE_CALLS(MILLRACE_TWINS, cudaStream)
MILLRACE_CAPTURE_CALLS_WITH_DATA(MILLRACE_TWINS, cudaStream, _v3, _v2)
MILLRACE_EDGE_CALLS(MILLRACE_CALL, cudaGraph)
MILLRACE_EDGE_CALLS_WITH_DATA(MILLRACE_CALL, cudaGraph, _v2)
MILLRACE_TWINS(cudaMemPrefetchAsync, ptsz,
               (const void* address, std::size_t bytes, int device, cudaStream_t stream),
               return prefetch(find_stream(stream, meaning), address, bytes,
                               location_of_device(device));)
MILLRACE_TWINS(cudaMemPrefetchAsync_v2, ptsz,
               (const void* address, std::size_t bytes, cudaMemLocation location, unsigned flags,
                cudaStream_t stream),
               return prefetch(find_stream(stream, meaning), address, bytes, location, flags);)
MILLRACE_CALL(cudaMemAdvise,
              (const void* address, std::size_t bytes, cudaMemoryAdvise advice, int device),
              return advise(address, bytes, advice, location_of_device(device));)
MILLRACE_CALL(cudaMemAdvise_v2,
              (const void* address, std::size_t bytes, cudaMemoryAdvise advice,
               cudaMemLocation location),
              return advise(address, bytes, advice, location);)
MILLRACE_CALL(cudaGraphAddNode,
              (cudaGraphNode_t * made, cudaGraph_t graph, const cudaGraphNode_t* after,
               std::size_t count, cudaGraphNodeParams* parameters),
              return add_any_node("cudaGraphAddNode", made, graph, after, count, parameters);)
MILLRACE_CALL(cudaGraphAddNode_v2,
              (cudaGraphNode_t * made, cudaGraph_t graph, const cudaGraphNode_t* after,
               const cudaGraphEdgeData*, std::size_t count, cudaGraphNodeParams* parameters),
              return add_any_node("cudaGraphAddNode_v2", made, graph, after, count, parameters);)
MILLRACE_TEXTURE_CALLS(kBytesOfResourceDesc_v12, kBytesOfResourceViewDesc_v12)
