// What the runtime of CUDA 12 exports under its own parameters.

#include <cstring>

#include "exports/captures.hpp"
#include "exports/graphs.hpp"
#include "exports/memory.hpp"
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
MILLRACE_TWINS(cudaStreamGetCaptureInfo, ptsz,
               (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id),
               return capture_info(find_stream(stream, meaning), {status, id, {}, {}, {}, {}});)
MILLRACE_TWINS(cudaStreamGetCaptureInfo_v2, ptsz,
               (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                cudaGraph_t* graph, const cudaGraphNode_t** nodes, std::size_t* count),
               return capture_info(find_stream(stream, meaning),
                                   {status, id, graph, nodes, {}, count});)
MILLRACE_TWINS(cudaStreamGetCaptureInfo_v3, ptsz,
               (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                std::size_t* count),
               return capture_info(find_stream(stream, meaning),
                                   {status, id, graph, nodes, edges, count});)
MILLRACE_TWINS(cudaStreamUpdateCaptureDependencies, ptsz,
               (cudaStream_t stream, cudaGraphNode_t* nodes, std::size_t count, unsigned flags),
               return update_dependencies(find_stream(stream, meaning), nodes, count, flags);)
MILLRACE_TWINS(cudaStreamUpdateCaptureDependencies_v2, ptsz,
               (cudaStream_t stream, cudaGraphNode_t* nodes, const cudaGraphEdgeData*,
                std::size_t count, unsigned flags),
               return update_dependencies(find_stream(stream, meaning), nodes, count, flags);)
MILLRACE_CALL(cudaGraphGetEdges,
              (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, std::size_t* count),
              return graph_edges(graph, from, to, nullptr, count);)
MILLRACE_CALL(cudaGraphGetEdges_v2,
              (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
               cudaGraphEdgeData* data, std::size_t* count),
              return graph_edges(graph, from, to, data, count);)
MILLRACE_CALL(cudaGraphNodeGetDependencies,
              (cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t* count),
              return node_dependencies(node, nodes, nullptr, count);)
MILLRACE_CALL(cudaGraphNodeGetDependencies_v2,
              (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
               std::size_t* count),
              return node_dependencies(node, nodes, data, count);)
MILLRACE_CALL(cudaGraphNodeGetDependentNodes,
              (cudaGraphNode_t node, cudaGraphNode_t* nodes, std::size_t* count),
              return node_dependents(node, nodes, nullptr, count);)
MILLRACE_CALL(cudaGraphNodeGetDependentNodes_v2,
              (cudaGraphNode_t node, cudaGraphNode_t* nodes, cudaGraphEdgeData* data,
               std::size_t* count),
              return node_dependents(node, nodes, data, count);)
MILLRACE_CALL(cudaGraphAddDependencies,
              (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
               std::size_t count),
              return add_edges(graph, from, to, count);)
MILLRACE_CALL(cudaGraphAddDependencies_v2,
              (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
               const cudaGraphEdgeData*, std::size_t count),
              return add_edges(graph, from, to, count);)
MILLRACE_CALL(cudaGraphRemoveDependencies,
              (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
               std::size_t count),
              return remove_edges(graph, from, to, count);)
MILLRACE_CALL(cudaGraphRemoveDependencies_v2,
              (cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
               const cudaGraphEdgeData*, std::size_t count),
              return remove_edges(graph, from, to, count);)
MILLRACE_TWINS(cudaMemPrefetchAsync, ptsz, (const void*, std::size_t, int, cudaStream_t stream),
               return prefetch(find_stream(stream, meaning));)
MILLRACE_TWINS(cudaMemPrefetchAsync_v2, ptsz,
               (const void*, std::size_t, cudaMemLocation, unsigned, cudaStream_t stream),
               return prefetch(find_stream(stream, meaning));)
