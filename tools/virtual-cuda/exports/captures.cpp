#include "exports/captures.hpp"

#include <algorithm>
#include <utility>

namespace millrace::virtual_cuda {

cudaError_t capture_info(CUstream_st* stream, const CaptureInfo& out) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (out.status == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (const cudaError_t error = check_implicit(*stream, false); error != cudaSuccess) return error;
  const Capture* const capture = stream->capture.get();
  if (capture == nullptr) {
    *out.status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  }
  *out.status =
      capture->invalid ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  if (out.id != nullptr) *out.id = capture->id;
  if (out.graph != nullptr) *out.graph = handle_of(capture->graph.get());
  if (out.nodes != nullptr) *out.nodes = stream->capture_tails.data();
  if (out.edges != nullptr) {
    stream->capture_edges.assign(stream->capture_tails.size(), {});
    *out.edges = stream->capture_edges.data();
  }
  if (out.count != nullptr) *out.count = stream->capture_tails.size();
  return cudaSuccess;
}

cudaError_t update_dependencies(CUstream_st* stream, cudaGraphNode_t* nodes, std::size_t count,
                                unsigned flags) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if ((nodes == nullptr && count != 0) || flags > cudaStreamSetCaptureDependencies)
    return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (stream->capture == nullptr) return cudaErrorIllegalState;
  if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
  for (std::size_t i = 0; i < count; ++i)
    if (!stream->capture->graph->owns(nodes[i])) return cudaErrorInvalidValue;
  std::vector<cudaGraphNode_t>& tails = stream->capture_tails;
  if (flags == cudaStreamSetCaptureDependencies) tails.clear();
  for (std::size_t i = 0; i < count; ++i)
    if (std::find(tails.begin(), tails.end(), nodes[i]) == tails.end()) tails.push_back(nodes[i]);
  return cudaSuccess;
}

}  // namespace millrace::virtual_cuda

using namespace millrace::virtual_cuda;

namespace {

cudaError_t begin(CUstream_st* stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const Lock lock = lock_engine();
  return begin_capture(*stream, mode, nullptr, {});
}

cudaError_t begin_to_graph(CUstream_st* stream, cudaGraph_t graph, const cudaGraphNode_t* after,
                           std::size_t count, cudaStreamCaptureMode mode) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  const Lock lock = lock_engine();
  Graph* const found = find_graph(graph);
  if (found == nullptr || (after == nullptr && count != 0)) return cudaErrorInvalidValue;
  return begin_capture(*stream, mode, found->shared_from_this(), {after, after + count});
}

cudaError_t end(CUstream_st* stream, cudaGraph_t* graph) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (graph == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  return end_capture(*stream, graph);
}

cudaError_t exchange_mode(Thread& thread, cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
      *mode > cudaStreamCaptureModeRelaxed)
    return cudaErrorInvalidValue;
  std::swap(thread.capture_mode, *mode);
  return cudaSuccess;
}

}  // namespace

MILLRACE_TWINS(cudaStreamBeginCapture, ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode),
               return begin(find_stream(stream, meaning), mode);)
MILLRACE_TWINS(cudaStreamBeginCaptureToGraph, ptsz,
               (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* after,
                const cudaGraphEdgeData*, std::size_t count, cudaStreamCaptureMode mode),
               return begin_to_graph(find_stream(stream, meaning), graph, after, count, mode);)
MILLRACE_TWINS(cudaStreamEndCapture, ptsz, (cudaStream_t stream, cudaGraph_t* graph),
               return end(find_stream(stream, meaning), graph);)
MILLRACE_TWINS(cudaStreamIsCapturing, ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* status),
               return capture_info(find_stream(stream, meaning), {status, {}, {}, {}, {}, {}});)
MILLRACE_CALL(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
              return exchange_mode(thread, mode);)
