#include <algorithm>
#include <cstring>

#include "check/checker.hpp"
#include "exports/entry.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

cudaError_t create(cudaStream_t* made, unsigned flags, int priority) {
  if (made == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0)
    return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::create_stream);
  *made = make_stream(runtime().current_gpu(), CUstream_st::Role::made, flags,
                      std::clamp(priority, kGreatestPriority, kLeastPriority));
  return cudaSuccess;
}

cudaError_t destroy(cudaStream_t handle) {
  CUstream_st* const stream = find_stream(handle, Default::legacy);
  if (stream == nullptr || stream->role != CUstream_st::Role::made)
    return cudaErrorInvalidResourceHandle;
  Lock lock = lock_engine();
  spend(lock, Call::destroy_stream);
  abandon_capture(*stream);
  destroy_stream(*stream);
  return cudaSuccess;
}

cudaError_t synchronize(CUstream_st* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Gpu& gpu = *runtime().gpus[stream->device];
  if (quick() && !gpu.excess.load(std::memory_order_relaxed)) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::synchronize_stream);
  if (const cudaError_t error = check_wait(*stream); error != cudaSuccess) return error;
  runtime().engine.wait(lock, OperationRef{stream->tail});
  checking::synchronized(*stream);
  trim_pools(gpu);
  return cudaSuccess;
}

cudaError_t query(CUstream_st* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (quick()) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::query_stream);
  if (const cudaError_t error = check_wait(*stream); error != cudaSuccess) return error;
  if (!runtime().engine.query(lock, OperationRef{stream->tail})) return cudaErrorNotReady;
  checking::synchronized(*stream);
  return cudaSuccess;
}

cudaError_t wait(CUstream_st* stream, cudaEvent_t event, unsigned flags) {
  if (stream == nullptr || !valid(event)) return cudaErrorInvalidResourceHandle;
  if (flags > cudaEventWaitExternal) return cudaErrorInvalidValue;
  if (quick() && event->capture == nullptr) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::wait);
  if (stream->capture != nullptr && flags == cudaEventWaitExternal)
    return submit(lock, *stream, WaitWork{{event, event->generation}});
  if (stream->capture != nullptr || event->capture != nullptr)
    return wait_captured(*stream, *event);
  checking::waits(*stream, *event);
  if (event->last == nullptr || event->last->done()) return check_implicit(*stream);
  return submit(lock, *stream, EmptyWork{}, {event->last});
}

cudaError_t host_function(CUstream_st* stream, HostWork work) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (work.function == nullptr && work.callback == nullptr) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::callback);
  if (work.callback != nullptr && stream->capture != nullptr) return check_wait(*stream);
  return submit(lock, *stream, work);
}

template <typename Value, typename Read>
cudaError_t read(CUstream_st* stream, Value* value, Read read) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (value == nullptr) return cudaErrorInvalidValue;
  *value = read(*stream);
  return cudaSuccess;
}

/** Reads a property that CUDA does not report for a captured stream. The query ends the capture. */
template <typename Value, typename Read>
cudaError_t read_uncaptured(CUstream_st* stream, Value* value, Read read_it) {
  if (stream != nullptr && !quick()) {
    const Lock lock = lock_engine();
    if (stream->capture != nullptr) return check_wait(*stream);
  }
  return read(stream, value, read_it);
}

constexpr std::size_t kStreamAttributeBytes = 64;

cudaError_t get_attribute(CUstream_st* stream, int attribute, void* value) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (value == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  std::memcpy(value, stream->attributes[attribute].data(), kStreamAttributeBytes);
  return cudaSuccess;
}

cudaError_t set_attribute(CUstream_st* stream, int attribute, const void* value) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (value == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  std::memcpy(stream->attributes[attribute].data(), value, kStreamAttributeBytes);
  return cudaSuccess;
}

cudaError_t copy_attributes(CUstream_st* to, CUstream_st* from) {
  if (to == nullptr || from == nullptr) return cudaErrorInvalidResourceHandle;
  const Lock lock = lock_engine();
  to->attributes = from->attributes;
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaStreamCreate, (cudaStream_t * stream),
              return create(stream, cudaStreamDefault, kLeastPriority);)
MILLRACE_CALL(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags),
              return create(stream, flags, kLeastPriority);)
MILLRACE_CALL(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned flags, int priority),
              return create(stream, flags, priority);)
MILLRACE_CALL(cudaStreamDestroy, (cudaStream_t stream), return destroy(stream);)
MILLRACE_TWINS(cudaStreamSynchronize, ptsz, (cudaStream_t stream),
               return synchronize(find_stream(stream, meaning));)
MILLRACE_TWINS(cudaStreamQuery, ptsz, (cudaStream_t stream),
               return query(find_stream(stream, meaning));)
MILLRACE_TWINS(cudaStreamWaitEvent, ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
               return wait(find_stream(stream, meaning), event, flags);)
MILLRACE_TWINS(cudaLaunchHostFunc, ptsz, (cudaStream_t stream, cudaHostFn_t function, void* data),
               return host_function(find_stream(stream, meaning), {function, data, {}, {}});)
MILLRACE_TWINS(cudaStreamAddCallback, ptsz,
               (cudaStream_t stream, cudaStreamCallback_t callback, void* data, unsigned flags),
               if (flags != 0) return cudaErrorInvalidValue;
               return host_function(find_stream(stream, meaning), {{}, data, callback, stream});)
MILLRACE_TWINS(cudaStreamGetFlags, ptsz, (cudaStream_t stream, unsigned* flags),
               return read_uncaptured(find_stream(stream, meaning), flags,
                                      [](const CUstream_st& found) { return found.flags; });)
MILLRACE_TWINS(cudaStreamGetPriority, ptsz, (cudaStream_t stream, int* priority),
               return read(find_stream(stream, meaning), priority,
                           [](const CUstream_st& found) { return found.priority; });)
MILLRACE_TWINS(cudaStreamGetId, ptsz, (cudaStream_t stream, unsigned long long* id),
               return read_uncaptured(find_stream(stream, meaning), id,
                                      [](const CUstream_st& found) { return found.id; });)
MILLRACE_TWINS(cudaStreamGetDevice, ptsz, (cudaStream_t stream, int* device),
               return read_uncaptured(find_stream(stream, meaning), device,
                                      [](const CUstream_st& found) {
                                        return static_cast<int>(found.device);
                                      });)
MILLRACE_TWINS(cudaStreamGetAttribute, ptsz, (cudaStream_t stream, int attribute, void* value),
               return get_attribute(find_stream(stream, meaning), attribute, value);)
MILLRACE_TWINS(cudaStreamSetAttribute, ptsz,
               (cudaStream_t stream, int attribute, const void* value),
               return set_attribute(find_stream(stream, meaning), attribute, value);)
MILLRACE_TWINS(cudaStreamCopyAttributes, ptsz, (cudaStream_t to, cudaStream_t from),
               return copy_attributes(find_stream(to, meaning), find_stream(from, meaning));)
MILLRACE_TWINS(cudaStreamAttachMemAsync, ptsz, (cudaStream_t stream, void*, std::size_t, unsigned),
               CUstream_st* const found = find_stream(stream, meaning);
               if (found == nullptr) return cudaErrorInvalidResourceHandle;
               if (quick()) return cudaSuccess; Lock lock = lock_engine();
               return submit(lock, *found, EmptyWork{});)
MILLRACE_CALL(cudaDeviceGetStreamPriorityRange, (int* least, int* greatest),
              if (least != nullptr) * least = kLeastPriority;
              if (greatest != nullptr) * greatest = kGreatestPriority; return cudaSuccess;)
