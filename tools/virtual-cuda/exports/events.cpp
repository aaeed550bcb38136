#include "check/checker.hpp"
#include "exports/entry.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

constexpr unsigned kEventFlags =
    cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

cudaError_t create(cudaEvent_t* made, unsigned flags) {
  if (made == nullptr || (flags & ~kEventFlags) != 0) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) != 0) return cudaErrorNotSupported;
  Lock lock = lock_engine();
  spend(lock, Call::create_event);
  CUevent_st* const event = runtime().events.take();
  event->magic = CUevent_st::kMagic;
  event->flags = flags;
  event->device = runtime().current_gpu().ordinal;
  event->recorded = false;
  ++event->generation;
  *made = event;
  return cudaSuccess;
}

cudaError_t destroy(cudaEvent_t event) {
  if (!valid(event)) return cudaErrorInvalidResourceHandle;
  Lock lock = lock_engine();
  spend(lock, Call::destroy_event);
  if (Checker* const check = checker()) check->forget(*event);
  event->magic = 0;
  ++event->generation;
  event->last.reset();
  event->capture.reset();
  event->captured_nodes.clear();
  runtime().events.give(event);
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t event, CUstream_st* stream, unsigned flags) {
  if (!valid(event) || stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (flags > cudaEventRecordExternal) return cudaErrorInvalidValue;
  if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
  if (quick()) {
    event->recorded = true;
    if (event->capture) event->capture.reset();
    if ((event->flags & cudaEventDisableTiming) == 0)
      event->time = runtime().engine.schedule().now();
    return cudaSuccess;
  }
  Lock lock = lock_engine();
  spend(lock, Call::record);
  if (const cudaError_t error = check_implicit(*stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr && flags == cudaEventRecordDefault) {
    if (stream->capture->invalid) return cudaErrorStreamCaptureInvalidated;
    record_captured(*event, *stream);
    return cudaSuccess;
  }
  event->capture.reset();
  event->recorded = true;
  return submit(lock, *stream, RecordWork{{event, event->generation}}, {}, &event->last);
}

cudaError_t check_host_use(const CUevent_st& event) {
  return event.capture != nullptr ? cudaErrorCapturedEvent : cudaSuccess;
}

cudaError_t query(cudaEvent_t event) {
  if (!valid(event)) return cudaErrorInvalidResourceHandle;
  if (quick()) return check_host_use(*event);
  Lock lock = lock_engine();
  spend(lock, Call::query_event);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  if (const cudaError_t error = check_host_use(*event); error != cudaSuccess) return error;
  if (!runtime().engine.query(lock, OperationRef{event->last})) return cudaErrorNotReady;
  checking::synchronized(*event);
  return cudaSuccess;
}

cudaError_t synchronize(cudaEvent_t event) {
  if (!valid(event)) return cudaErrorInvalidResourceHandle;
  Gpu& gpu = *runtime().gpus[event->device];
  if (quick() && !gpu.excess.load(std::memory_order_relaxed)) return check_host_use(*event);
  Lock lock = lock_engine();
  spend(lock, Call::synchronize_event);
  if (const cudaError_t error = check_host_use(*event); error != cudaSuccess) return error;
  runtime().engine.wait(lock, OperationRef{event->last});
  checking::synchronized(*event);
  trim_pools(gpu);
  return cudaSuccess;
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  for (const cudaEvent_t event : {start, end})
    if (!valid(event) || (event->flags & cudaEventDisableTiming) != 0 || !event->recorded)
      return cudaErrorInvalidResourceHandle;
  Lock lock = lock_engine();
  spend(lock, Call::event_time);
  for (const cudaEvent_t event : {start, end})
    if (!runtime().engine.query(lock, OperationRef{event->last})) return cudaErrorNotReady;
  for (const cudaEvent_t event : {start, end}) checking::synchronized(*event);
  *milliseconds = static_cast<float>(static_cast<double>((end->time - start->time).count()) / 1e6);
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaEventCreate, (cudaEvent_t * event), return create(event, cudaEventDefault);)
MILLRACE_CALL(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned flags),
              return create(event, flags);)
MILLRACE_CALL(cudaEventDestroy, (cudaEvent_t event), return destroy(event);)
MILLRACE_TWINS(cudaEventRecord, ptsz, (cudaEvent_t event, cudaStream_t stream),
               return record(event, find_stream(stream, meaning), cudaEventRecordDefault);)
MILLRACE_TWINS(cudaEventRecordWithFlags, ptsz,
               (cudaEvent_t event, cudaStream_t stream, unsigned flags),
               return record(event, find_stream(stream, meaning), flags);)
MILLRACE_CALL(cudaEventQuery, (cudaEvent_t event), return query(event);)
MILLRACE_CALL(cudaEventSynchronize, (cudaEvent_t event), return synchronize(event);)
MILLRACE_CALL(cudaEventElapsedTime, (float* milliseconds, cudaEvent_t start, cudaEvent_t end),
              return elapsed(milliseconds, start, end);)
