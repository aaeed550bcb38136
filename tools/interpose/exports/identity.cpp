// Calls that end or change a stream, an event, a capture or a device, and calls after which an
// event may be recorded unseen.

#include "exports/entry.hpp"

using namespace millrace;
using namespace millrace::interpose;

namespace {

cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return entry(Function::cudaStreamBeginCapture, [&](const Runtime& runtime, Process& process) {
    return begin_capture(process, stream,
                         [&] { return runtime.cudaStreamBeginCapture(stream, mode); });
  });
}

cudaError_t begin_to(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes,
                     const cudaGraphEdgeData* edges, std::size_t count,
                     cudaStreamCaptureMode mode) {
  return entry(
      Function::cudaStreamBeginCaptureToGraph, [&](const Runtime& runtime, Process& process) {
        if (runtime.cudaStreamBeginCaptureToGraph == nullptr) return cudaErrorNotSupported;
        return begin_capture(process, stream, [&] {
          return runtime.cudaStreamBeginCaptureToGraph(stream, graph, nodes, edges, count, mode);
        });
      });
}

cudaError_t end(cudaStream_t stream, cudaGraph_t* graph) {
  return entry(Function::cudaStreamEndCapture, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaStreamEndCapture(stream, graph);
    if (!is_captured(stream)) process.end_capture(stream);
    return error;
  });
}

/** Forgets the events that a launch records through its attributes. */
void forget_events_of(Process& process, const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == cudaLaunchAttributeProgrammaticEvent)
      process.events.never_know(attribute.val.programmaticEvent.event);
#if CUDART_VERSION >= 12030
    if (attribute.id == cudaLaunchAttributeLaunchCompletionEvent)
      process.events.never_know(attribute.val.launchCompletionEvent.event);
#endif
  }
}

cudaError_t launch(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  return entry(Function::cudaLaunchKernelExC, [&](const Runtime& runtime, Process& process) {
    if (config != nullptr) forget_events_of(process, *config);
    return runtime.cudaLaunchKernelExC(config, function, arguments);
  });
}

cudaError_t launch_per_thread(const cudaLaunchConfig_t* config, const void* function,
                              void** arguments) {
  if (config == nullptr) return launch(config, function, arguments);
  cudaLaunchConfig_t meant = *config;
  meant.stream = per_thread(meant.stream);
  return launch(&meant, function, arguments);
}

}  // namespace

MILLRACE_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return entry(Function::cudaEventDestroy, [&](const Runtime& runtime, Process& process) {
    process.events.destroyed(event);
    return runtime.cudaEventDestroy(event);
  });
}

// Records a last marker, so that memory that the stream freed serves others when its work is done.
MILLRACE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return entry(Function::cudaStreamDestroy, [&](const Runtime& runtime, Process& process) {
    Gpu* const gpu = process.find(device_of(stream));
    process.end_capture(stream);
    if (gpu != nullptr && !is_captured(stream)) {
      const KeepsLastError keeps;
      try {
        gpu->order().mark(StreamRef{handle_of(stream)});
        gpu->log().closed(gpu->known(stream));
      } catch (const std::exception&) {  // not a stream: the runtime's own call fails
      }
    }
    return runtime.cudaStreamDestroy(stream);
  });
}

MILLRACE_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
                                                   cudaStreamCaptureMode mode) {
  return begin(stream, mode);
}
MILLRACE_EXPORT cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                                        cudaStreamCaptureMode mode) {
  return begin(per_thread(stream), mode);
}

MILLRACE_EXPORT cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                          const cudaGraphNode_t* nodes,
                                                          const cudaGraphEdgeData* edges,
                                                          std::size_t count,
                                                          cudaStreamCaptureMode mode) {
  return begin_to(stream, graph, nodes, edges, count, mode);
}
MILLRACE_EXPORT cudaError_t cudaStreamBeginCaptureToGraph_ptsz(
    cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* nodes,
    const cudaGraphEdgeData* edges, std::size_t count, cudaStreamCaptureMode mode) {
  return begin_to(per_thread(stream), graph, nodes, edges, count, mode);
}

MILLRACE_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return end(stream, graph);
}
MILLRACE_EXPORT cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return end(per_thread(stream), graph);
}

MILLRACE_EXPORT cudaError_t cudaDeviceReset() {
  return entry(Function::cudaDeviceReset, [](const Runtime& runtime, Process& process) {
    process.forget(current_device());
    return runtime.cudaDeviceReset();
  });
}

MILLRACE_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return entry(Function::cudaDeviceEnablePeerAccess, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaDeviceEnablePeerAccess(peer, flags);
    if (error != cudaSuccess) return error;
    const KeepsLastError keeps;
    process.enable_peer(current_device(), peer);
    return error;
  });
}

MILLRACE_EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                        const cudaGraphNode_t* nodes,
                                                        std::size_t count, cudaEvent_t event) {
  return entry(Function::cudaGraphAddEventRecordNode,
               [&](const Runtime& runtime, Process& process) {
                 process.events.never_know(event);
                 return runtime.cudaGraphAddEventRecordNode(node, graph, nodes, count, event);
               });
}

MILLRACE_EXPORT cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node,
                                                             cudaEvent_t event) {
  return entry(Function::cudaGraphEventRecordNodeSetEvent,
               [&](const Runtime& runtime, Process& process) {
                 process.events.never_know(event);
                 return runtime.cudaGraphEventRecordNodeSetEvent(node, event);
               });
}

MILLRACE_EXPORT cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t graph,
                                                                 cudaGraphNode_t node,
                                                                 cudaEvent_t event) {
  return entry(Function::cudaGraphExecEventRecordNodeSetEvent,
               [&](const Runtime& runtime, Process& process) {
                 process.events.never_know(event);
                 return runtime.cudaGraphExecEventRecordNodeSetEvent(graph, node, event);
               });
}

MILLRACE_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config,
                                                const void* function, void** arguments) {
  return launch(config, function, arguments);
}
MILLRACE_EXPORT cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t* config,
                                                     const void* function, void** arguments) {
  return launch_per_thread(config, function, arguments);
}

// Another process may record the event from now on.
MILLRACE_EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return entry(Function::cudaIpcGetEventHandle, [&](const Runtime& runtime, Process& process) {
    process.events.never_know(event);
    return runtime.cudaIpcGetEventHandle(handle, event);
  });
}

MILLRACE_EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event,
                                                   cudaIpcEventHandle_t handle) {
  return entry(Function::cudaIpcOpenEventHandle, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaIpcOpenEventHandle(event, handle);
    if (error == cudaSuccess) process.events.never_know(*event);
    return error;
  });
}

// The handle would name the whole segment, so the other process would get the segment's beginning.
MILLRACE_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  return entry(Function::cudaIpcGetMemHandle, [&](const Runtime& runtime, Process& process) {
    if (process.settings.what_if || process.owner_of(address) == nullptr)
      return runtime.cudaIpcGetMemHandle(handle, address);
    warn_once(
        "cudaIpcGetMemHandle: Millrace's memory cannot be shared with other processes. Run the "
        "program with --leave-malloc: then cudaMalloc stays the runtime's own");
    KeepsLastError::lost = cudaErrorNotSupported;
    return cudaErrorNotSupported;
  });
}
