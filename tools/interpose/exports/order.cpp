// Records, waits and synchronizations, which order reuse across streams. Each function makes the
// program's own call, and notes the order that the call proves.

#include "exports/entry.hpp"

using namespace millrace;
using namespace millrace::interpose;

namespace {

/** The GPU of a stream, if it has served requests, and Millrace's stream. Empty for a captured
 * stream. */
struct Known {
  Gpu* gpu = nullptr;
  StreamRef stream{StreamHandle{}};
};

Known known(Process& process, cudaStream_t stream) {
  Gpu* const gpu = process.find(device_of(stream));
  if (gpu == nullptr || is_captured(stream)) return {};
  const KeepsLastError keeps;
  try {
    return {gpu, gpu->order().resolve(StreamRef{handle_of(stream)})};
  } catch (const std::exception&) {  // not a stream: the runtime's own call fails
    return {};
  }
}

/** Records a marker on the stream. Events that are recorded later come after it. */
std::optional<Recorded> mark(const Known& known) {
  if (known.gpu == nullptr) return std::nullopt;
  const KeepsLastError keeps;
  try {
    return Recorded{known.gpu, known.gpu->mark(known.stream)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

template <typename Call>
cudaError_t record(Function function, cudaEvent_t event, cudaStream_t stream, Call call) {
  return entry(function, [&](const Runtime& runtime, Process& process) {
    process.events.forget(event);
    const auto marked = mark(known(process, stream));
    const cudaError_t error = call(runtime);
    if (error == cudaSuccess && marked) process.events.recorded(event, *marked);
    return error;
  });
}

cudaError_t record_plain(cudaEvent_t event, cudaStream_t stream) {
  return record(Function::cudaEventRecord, event, stream,
                [&](const Runtime& runtime) { return runtime.cudaEventRecord(event, stream); });
}

cudaError_t record_with_flags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  // In a capture, an external record happens at each launch of the graph.
  if (flags != cudaEventRecordDefault) Process::get().events.never_know(event);
  return record(Function::cudaEventRecordWithFlags, event, stream, [&](const Runtime& runtime) {
    return runtime.cudaEventRecordWithFlags(event, stream, flags);
  });
}

/** Makes `call`, which uses the event. @return the record that it certainly used */
template <typename Call>
std::optional<Recorded> concerned(Process& process, cudaEvent_t event, Call call) {
  const auto before = process.events.find(event);
  call();
  return before && process.events.find(event) == before ? before : std::nullopt;
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return entry(Function::cudaStreamWaitEvent, [&](const Runtime& runtime, Process& process) {
    const Known waiter = known(process, stream);
    cudaError_t error = cudaSuccess;
    const auto record = concerned(
        process, event, [&] { error = runtime.cudaStreamWaitEvent(stream, event, flags); });
    if (error == cudaSuccess && record && record->gpu == waiter.gpu)
      waiter.gpu->joined(waiter.stream, record->marker);
    return error;
  });
}

/** A synchronization with an event, or a query. */
template <typename Call>
cudaError_t complete(Function function, cudaEvent_t event, Call call) {
  return entry(function, [&](const Runtime& runtime, Process& process) {
    cudaError_t error = cudaSuccess;
    const auto record = concerned(process, event, [&] { error = call(runtime); });
    if (!record) return error;
    if (error == cudaSuccess)
      record->gpu->passed(record->marker, function == Function::cudaEventQuery);
    if (error == cudaErrorNotReady) record->gpu->log().not_passed(record->marker);
    return error;
  });
}

/** A synchronization with a stream, a query, or a copy after which all its work is done. */
template <typename Call>
cudaError_t complete(Function function, cudaStream_t stream, Call call) {
  return entry(function, [&](const Runtime& runtime, Process& process) {
    const Known found = known(process, stream);
    if (found.gpu == nullptr) return call(runtime);
    cudaError_t error = cudaSuccess;
    const auto succeeds = [&] {
      error = call(runtime);
      return error == cudaSuccess;
    };
    found.gpu->synchronize(found.stream, succeeds, function == Function::cudaStreamQuery);
    return error;
  });
}

cudaError_t synchronize(cudaStream_t stream) {
  return complete(Function::cudaStreamSynchronize, stream,
                  [&](const Runtime& runtime) { return runtime.cudaStreamSynchronize(stream); });
}

cudaError_t query(cudaStream_t stream) {
  return complete(Function::cudaStreamQuery, stream,
                  [&](const Runtime& runtime) { return runtime.cudaStreamQuery(stream); });
}

}  // namespace

MILLRACE_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return record_plain(event, stream);
}
MILLRACE_EXPORT cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return record_plain(event, per_thread(stream));
}

MILLRACE_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                     unsigned flags) {
  return record_with_flags(event, stream, flags);
}
MILLRACE_EXPORT cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                                          unsigned flags) {
  return record_with_flags(event, per_thread(stream), flags);
}

MILLRACE_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                unsigned flags) {
  return wait(stream, event, flags);
}
MILLRACE_EXPORT cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event,
                                                     unsigned flags) {
  return wait(per_thread(stream), event, flags);
}

MILLRACE_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return complete(Function::cudaEventSynchronize, event,
                  [&](const Runtime& runtime) { return runtime.cudaEventSynchronize(event); });
}

MILLRACE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return complete(Function::cudaEventQuery, event,
                  [&](const Runtime& runtime) { return runtime.cudaEventQuery(event); });
}

MILLRACE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return synchronize(stream);
}
MILLRACE_EXPORT cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return synchronize(per_thread(stream));
}

MILLRACE_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) { return query(stream); }
MILLRACE_EXPORT cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return query(per_thread(stream));
}

MILLRACE_EXPORT cudaError_t cudaDeviceSynchronize() {
  return entry(Function::cudaDeviceSynchronize, [](const Runtime& runtime, Process& process) {
    Gpu* const gpu = process.find(current_device());
    const cudaError_t error = synchronize_device(runtime, gpu);
    if (gpu != nullptr && error == cudaSuccess) settle(runtime, process, *gpu);
    return error;
  });
}

// A copy to the host returns when the copy and all earlier work of its stream are done.
MILLRACE_EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes,
                                       cudaMemcpyKind kind) {
  const auto call = [&](const Runtime& runtime) {
    return runtime.cudaMemcpy(to, from, bytes, kind);
  };
  if (kind == cudaMemcpyDeviceToHost) return complete(Function::cudaMemcpy, cudaStream_t{}, call);
  return entry(Function::cudaMemcpy,
               [&](const Runtime& runtime, Process&) { return call(runtime); });
}
MILLRACE_EXPORT cudaError_t cudaMemcpy_ptds(void* to, const void* from, std::size_t bytes,
                                            cudaMemcpyKind kind) {
  const auto call = [&](const Runtime& runtime) {
    return runtime.cudaMemcpy_ptds(to, from, bytes, kind);
  };
  if (kind == cudaMemcpyDeviceToHost)
    return complete(Function::cudaMemcpy, cudaStreamPerThread, call);
  return entry(Function::cudaMemcpy,
               [&](const Runtime& runtime, Process&) { return call(runtime); });
}
