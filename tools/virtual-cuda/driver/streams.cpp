// Streams, events, host functions and captures.

#include "abi/functions.h"
#include "check/checker.hpp"
#include "driver/contexts.hpp"
#include "exports/edges.hpp"

using namespace millrace::virtual_cuda;

namespace {

cudaError_t context_of(CUstream_st* stream, CUcontext* out) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = &runtime().gpus[stream->device]->primary;
  return cudaSuccess;
}

// Records an event after all work of a context.
cudaError_t record_context(CUcontext context, CUevent event) {
  if (!valid(context)) return cudaErrorContextIsDestroyed;
  if (!valid(event) || event->device != context->gpu->ordinal)
    return cudaErrorInvalidResourceHandle;
  Lock lock = lock_engine();
  event->recorded = true;
  event->capture.reset();
  event->last = runtime().engine.add(RecordWork{{event, event->generation}}, event->device, 0,
                                     tails_of(*context->gpu));
  if (Checker* const check = checker()) check->recorded_all(*context->gpu, *event);
  runtime().engine.announce(lock, OperationRef{event->last});
  return cudaSuccess;
}

cudaError_t wait_in_context(CUcontext context, CUevent event) {
  if (!valid(context)) return cudaErrorContextIsDestroyed;
  if (!valid(event)) return cudaErrorInvalidResourceHandle;
  const Gpu& gpu = *context->gpu;
  std::vector<CUstream> streams{const_cast<CUstream>(&gpu.legacy)};
  {
    const Lock lock = lock_engine();
    streams.insert(streams.end(), gpu.streams.begin(), gpu.streams.end());
  }
  for (const CUstream stream : streams)
    if (const cudaError_t error = MILLRACE_AS(cudaStreamWaitEvent, stream, event, 0);
        error != cudaSuccess)
      return error;
  return cudaSuccess;
}

}  // namespace

MILLRACE_CONTEXT_CALL(cuStreamCreate, (CUstream * made, unsigned flags),
                      return MILLRACE_AS(cudaStreamCreateWithFlags, made, flags);)
MILLRACE_CONTEXT_CALL(cuStreamCreateWithPriority, (CUstream * made, unsigned flags, int priority),
                      return MILLRACE_AS(cudaStreamCreateWithPriority, made, flags, priority);)
MILLRACE_CONTEXT_CALL(cuStreamDestroy, (CUstream stream),
                      return MILLRACE_AS(cudaStreamDestroy, stream);)
MILLRACE_CONTEXT_CALL(cuStreamDestroy_v2, (CUstream stream),
                      return MILLRACE_AS(cudaStreamDestroy, stream);)
MILLRACE_CONTEXT_TWINS(cuStreamGetPriority, ptsz, (CUstream stream, int* priority),
                       return MILLRACE_AS(cudaStreamGetPriority, stream_of(stream, meaning),
                                          priority);)
MILLRACE_CONTEXT_TWINS(cuStreamGetFlags, ptsz, (CUstream stream, unsigned* flags),
                       return MILLRACE_AS(cudaStreamGetFlags, stream_of(stream, meaning), flags);)
MILLRACE_CONTEXT_TWINS(cuStreamGetId, ptsz, (CUstream stream, unsigned long long* id),
                       return MILLRACE_AS(cudaStreamGetId, stream_of(stream, meaning), id);)
MILLRACE_CONTEXT_TWINS(cuStreamGetDevice, ptsz, (CUstream stream, CUdevice* device),
                       return MILLRACE_AS(cudaStreamGetDevice, stream_of(stream, meaning), device);)
MILLRACE_STREAM_TWINS(cuStreamGetCtx, ptsz, (CUstream stream, CUcontext* out),
                      return context_of(find_stream(stream, meaning), out);)
MILLRACE_STREAM_TWINS(cuStreamGetCtx_v2, ptsz, (CUstream stream, CUcontext* out, void** green),
                      if (green != nullptr) * green = nullptr;
                      return context_of(find_stream(stream, meaning), out);)
MILLRACE_CONTEXT_TWINS(cuStreamWaitEvent, ptsz, (CUstream stream, CUevent event, unsigned flags),
                       return MILLRACE_AS(cudaStreamWaitEvent, stream_of(stream, meaning), event,
                                          flags);)
MILLRACE_CONTEXT_TWINS(cuStreamAddCallback, ptsz,
                       (CUstream stream, cudaStreamCallback_t callback, void* data, unsigned flags),
                       return MILLRACE_AS(cudaStreamAddCallback, stream_of(stream, meaning),
                                          callback, data, flags);)
MILLRACE_CONTEXT_TWINS(cuLaunchHostFunc, ptsz, (CUstream stream, cudaHostFn_t function, void* data),
                       return MILLRACE_AS(cudaLaunchHostFunc, stream_of(stream, meaning), function,
                                          data);)
MILLRACE_CONTEXT_TWINS(cuStreamAttachMemAsync, ptsz,
                       (CUstream stream, CUdeviceptr address, std::size_t bytes, unsigned flags),
                       return MILLRACE_AS(cudaStreamAttachMemAsync, stream_of(stream, meaning),
                                          pointer(address), bytes, flags);)
MILLRACE_STREAM_TWINS(cuStreamQuery, ptsz, (CUstream stream),
                      return MILLRACE_AS(cudaStreamQuery, stream_of(stream, meaning));)
MILLRACE_STREAM_TWINS(cuStreamSynchronize, ptsz, (CUstream stream),
                      return MILLRACE_AS(cudaStreamSynchronize, stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(cuStreamCopyAttributes, ptsz, (CUstream to, CUstream from),
                       return MILLRACE_AS(cudaStreamCopyAttributes, stream_of(to, meaning),
                                          stream_of(from, meaning));)
MILLRACE_CONTEXT_TWINS(cuStreamGetAttribute, ptsz, (CUstream stream, int attribute, void* value),
                       return MILLRACE_AS(cudaStreamGetAttribute, stream_of(stream, meaning),
                                          attribute, value);)
MILLRACE_CONTEXT_TWINS(cuStreamSetAttribute, ptsz,
                       (CUstream stream, int attribute, const void* value),
                       return MILLRACE_AS(cudaStreamSetAttribute, stream_of(stream, meaning),
                                          attribute, value);)

// Captures

MILLRACE_CONTEXT_TWINS(cuStreamBeginCapture_v2, ptsz, (CUstream stream, cudaStreamCaptureMode mode),
                       return MILLRACE_AS(cudaStreamBeginCapture, stream_of(stream, meaning),
                                          mode);)
MILLRACE_CONTEXT_TWINS(cuStreamBeginCaptureToGraph, ptsz,
                       (CUstream stream, CUgraph graph, const CUgraphNode* after,
                        const cudaGraphEdgeData* data, std::size_t count,
                        cudaStreamCaptureMode mode),
                       return MILLRACE_AS(cudaStreamBeginCaptureToGraph, stream_of(stream, meaning),
                                          graph, after, data, count, mode);)
MILLRACE_CONTEXT_TWINS(cuStreamEndCapture, ptsz, (CUstream stream, CUgraph* graph),
                       return MILLRACE_AS(cudaStreamEndCapture, stream_of(stream, meaning), graph);)
MILLRACE_CONTEXT_TWINS(cuStreamIsCapturing, ptsz, (CUstream stream, cudaStreamCaptureStatus* out),
                       return MILLRACE_AS(cudaStreamIsCapturing, stream_of(stream, meaning), out);)
MILLRACE_CAPTURE_CALLS(MILLRACE_CONTEXT_TWINS, cuStream)
MILLRACE_CAPTURE_CALLS_WITH_DATA(MILLRACE_CONTEXT_TWINS, cuStream, _v3, _v2)
MILLRACE_DRIVER_CALL(cuThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
                     return MILLRACE_AS(cudaThreadExchangeStreamCaptureMode, mode);)

// Events

MILLRACE_CONTEXT_CALL(cuEventCreate, (CUevent * made, unsigned flags),
                      return MILLRACE_AS(cudaEventCreateWithFlags, made, flags);)
MILLRACE_CONTEXT_CALL(cuEventDestroy, (CUevent event), return MILLRACE_AS(cudaEventDestroy, event);)
MILLRACE_CONTEXT_CALL(cuEventDestroy_v2, (CUevent event),
                      return MILLRACE_AS(cudaEventDestroy, event);)
MILLRACE_CONTEXT_TWINS(cuEventRecord, ptsz, (CUevent event, CUstream stream),
                       return MILLRACE_AS(cudaEventRecord, event, stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(cuEventRecordWithFlags, ptsz,
                       (CUevent event, CUstream stream, unsigned flags),
                       return MILLRACE_AS(cudaEventRecordWithFlags, event,
                                          stream_of(stream, meaning), flags);)
MILLRACE_CONTEXT_CALL(cuEventQuery, (CUevent event), return MILLRACE_AS(cudaEventQuery, event);)
MILLRACE_CONTEXT_CALL(cuEventSynchronize, (CUevent event),
                      return MILLRACE_AS(cudaEventSynchronize, event);)
MILLRACE_CONTEXT_CALL(cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent end),
                      return MILLRACE_AS(cudaEventElapsedTime, milliseconds, start, end);)
MILLRACE_CONTEXT_CALL(cuEventElapsedTime_v2, (float* milliseconds, CUevent start, CUevent end),
                      return MILLRACE_AS(cudaEventElapsedTime, milliseconds, start, end);)
MILLRACE_DRIVER_CALL(cuCtxRecordEvent, (CUcontext context, CUevent event),
                     return record_context(context, event);)
MILLRACE_DRIVER_CALL(cuCtxWaitEvent, (CUcontext context, CUevent event),
                     return wait_in_context(context, event);)
