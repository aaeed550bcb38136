// Functions of the driver that free memory, record or destroy events, or begin or end captures. The
// runtime and the driver share handles, and a program may mix the two. The functions are taken over
// if a program is linked with libcuda.so.1 or asks for their addresses.

#include <cuda.h>

#include <cstring>

#include "exports/entry.hpp"

using namespace millrace::interpose;

namespace {

cudaStream_t runtime_stream(CUstream stream) { return stream; }

/** The driver's own function; nullptr in a process without a driver. */
template <typename Function>
Function* driver(const char* name) {
  return reinterpret_cast<Function*>(driver_function(name));
}

template <typename Function, typename... Arguments>
CUresult pass(const char* name, Arguments... arguments) {
  auto* const function = driver<Function>(name);
  return function == nullptr ? CUDA_ERROR_NOT_INITIALIZED : function(arguments...);
}

using Record = CUresult(CUevent, CUstream);
using RecordWithFlags = CUresult(CUevent, CUstream, unsigned);

CUresult record(const char* name, CUevent event, CUstream stream) {
  Process::get().events.forget(event);
  return pass<Record>(name, event, stream);
}

// External records of a capture happen at each launch of the graph.
CUresult record(const char* name, CUevent event, CUstream stream, unsigned flags) {
  if (flags != 0) Process::get().events.never_know(event);
  Process::get().events.forget(event);
  return pass<RecordWithFlags>(name, event, stream, flags);
}

bool is_ours(CUdeviceptr address) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return real().major != 0 && Process::get().owner_of(reinterpret_cast<void*>(address)) != nullptr;
}

CUresult free_async(const char* name, CUdeviceptr address, CUstream stream) {
  if (!is_ours(address)) return pass<CUresult(CUdeviceptr, CUstream)>(name, address, stream);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return static_cast<CUresult>(
      release(real(), Process::get(), reinterpret_cast<void*>(address), runtime_stream(stream)));
}

CUresult begin(const char* name, CUstream stream, CUstreamCaptureMode mode) {
  const auto call = [&] {
    return pass<CUresult(CUstream, CUstreamCaptureMode)>(name, stream, mode);
  };
  return real().major == 0 ? call() : begin_capture(Process::get(), runtime_stream(stream), call);
}

CUresult end(const char* name, CUstream stream, CUgraph* graph) {
  const CUresult error = pass<CUresult(CUstream, CUgraph*)>(name, stream, graph);
  if (real().major != 0 && !is_captured(runtime_stream(stream)))
    Process::get().end_capture(runtime_stream(stream));
  return error;
}

}  // namespace

#define MILLRACE_DRIVER extern "C" __attribute__((visibility("default"))) CUresult

#undef cuEventDestroy
#undef cuMemFree
#undef cuStreamBeginCapture
#undef cuGetProcAddress

MILLRACE_DRIVER cuEventRecord(CUevent event, CUstream stream) {
  return record("cuEventRecord", event, stream);
}
MILLRACE_DRIVER cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return record("cuEventRecord_ptsz", event, stream);
}
MILLRACE_DRIVER cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  return record("cuEventRecordWithFlags", event, stream, flags);
}
MILLRACE_DRIVER cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned flags) {
  return record("cuEventRecordWithFlags_ptsz", event, stream, flags);
}
MILLRACE_DRIVER cuEventDestroy_v2(CUevent event) {
  Process::get().events.destroyed(event);
  return pass<CUresult(CUevent)>("cuEventDestroy_v2", event);
}

MILLRACE_DRIVER cuMemFree_v2(CUdeviceptr address) {
  if (!is_ours(address)) return pass<CUresult(CUdeviceptr)>("cuMemFree_v2", address);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return static_cast<CUresult>(release(real(), Process::get(), reinterpret_cast<void*>(address)));
}
MILLRACE_DRIVER cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return free_async("cuMemFreeAsync", address, stream);
}
MILLRACE_DRIVER cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  if (stream == nullptr) stream = CU_STREAM_PER_THREAD;
  return free_async("cuMemFreeAsync", address, stream);
}

MILLRACE_DRIVER cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  return begin("cuStreamBeginCapture_v2", stream, mode);
}
MILLRACE_DRIVER cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
  return begin("cuStreamBeginCapture_v2_ptsz", stream, mode);
}
MILLRACE_DRIVER cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return end("cuStreamEndCapture", stream, graph);
}
MILLRACE_DRIVER cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return end("cuStreamEndCapture_ptsz", stream, graph);
}

namespace {

struct Replaced {
  void* found;        ///< the driver's function
  void* replacement;  ///< the function of this library
};

/** The function of this library for the driver's function `found`, or `found` itself. */
void* replacement_of(void* found) {
#define MILLRACE_REPLACED(name) \
  Replaced { driver_function(#name), reinterpret_cast<void*>(&name) }
  static const Replaced replaced[] = {
      MILLRACE_REPLACED(cuEventRecord),           MILLRACE_REPLACED(cuEventRecord_ptsz),
      MILLRACE_REPLACED(cuEventRecordWithFlags),  MILLRACE_REPLACED(cuEventRecordWithFlags_ptsz),
      MILLRACE_REPLACED(cuEventDestroy_v2),       MILLRACE_REPLACED(cuMemFree_v2),
      MILLRACE_REPLACED(cuMemFreeAsync),          MILLRACE_REPLACED(cuMemFreeAsync_ptsz),
      MILLRACE_REPLACED(cuStreamBeginCapture_v2), MILLRACE_REPLACED(cuStreamBeginCapture_v2_ptsz),
      MILLRACE_REPLACED(cuStreamEndCapture),      MILLRACE_REPLACED(cuStreamEndCapture_ptsz),
  };
#undef MILLRACE_REPLACED
  for (const Replaced& each : replaced) {
    if (found != nullptr && each.found == found) return each.replacement;
  }
  return found;
}

}  // namespace

MILLRACE_DRIVER cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                    cuuint64_t flags, CUdriverProcAddressQueryResult* found) {
  const CUresult error =
      pass<CUresult(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*)>(
          "cuGetProcAddress_v2", symbol, function, version, flags, found);
  if (error == CUDA_SUCCESS && function != nullptr) *function = replacement_of(*function);
  return error;
}

MILLRACE_EXPORT cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                                    unsigned long long flags,
                                                    cudaDriverEntryPointQueryResult* found) {
  return entry(Function::cudaGetDriverEntryPoint, [&](const Runtime& runtime, Process&) {
    const cudaError_t error = runtime.cudaGetDriverEntryPoint(symbol, function, flags, found);
    if (error == cudaSuccess) *function = replacement_of(*function);
    return error;
  });
}

MILLRACE_EXPORT cudaError_t
cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                 unsigned long long flags, cudaDriverEntryPointQueryResult* found) {
  return entry(Function::cudaGetDriverEntryPointByVersion, [&](const Runtime& runtime, Process&) {
    if (runtime.cudaGetDriverEntryPointByVersion == nullptr) return cudaErrorNotSupported;
    const cudaError_t error =
        runtime.cudaGetDriverEntryPointByVersion(symbol, function, version, flags, found);
    if (error == cudaSuccess) *function = replacement_of(*function);
    return error;
  });
}
