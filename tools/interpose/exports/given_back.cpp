// Allocations that the runtime serves itself. They may need memory that Millrace keeps free.

#include "exports/given_back.hpp"

namespace millrace::interpose {

bool give_back(const Runtime& runtime, Process& process) {
  if (process.settings.what_if || process.capturing()) return false;
  const KeepsLastError keeps;
  bool any = false;
  for (Gpu* const gpu : process.gpus()) {
    const CurrentGpu current{gpu->ordinal()};
    if (synchronize_device(runtime, gpu) != cudaSuccess) continue;
    any = gpu->memory().trim() > 0 || any;
  }
  return any;
}

}  // namespace millrace::interpose

using namespace millrace::interpose;

namespace {

template <typename Call>
cudaError_t passed(Function function, Call call) {
  return entry(function, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error =
        with_memory_given_back(runtime, process, [&] { return call(runtime); });
    count_answer(process, function, error);
    return error;
  });
}

}  // namespace

MILLRACE_EXPORT cudaError_t cudaMallocPitch(void** address, std::size_t* pitch, std::size_t width,
                                            std::size_t height) {
  return passed(Function::cudaMallocPitch, [&](const Runtime& runtime) {
    return runtime.cudaMallocPitch(address, pitch, width, height);
  });
}

MILLRACE_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* pointer, cudaExtent extent) {
  return passed(Function::cudaMalloc3D,
                [&](const Runtime& runtime) { return runtime.cudaMalloc3D(pointer, extent); });
}

MILLRACE_EXPORT cudaError_t cudaMallocManaged(void** address, std::size_t bytes, unsigned flags) {
  return passed(Function::cudaMallocManaged, [&](const Runtime& runtime) {
    return runtime.cudaMallocManaged(address, bytes, flags);
  });
}

MILLRACE_EXPORT cudaError_t cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* format,
                                            std::size_t width, std::size_t height, unsigned flags) {
  return passed(Function::cudaMallocArray, [&](const Runtime& runtime) {
    return runtime.cudaMallocArray(array, format, width, height, flags);
  });
}

MILLRACE_EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* array,
                                              const cudaChannelFormatDesc* format,
                                              cudaExtent extent, unsigned flags) {
  return passed(Function::cudaMalloc3DArray, [&](const Runtime& runtime) {
    return runtime.cudaMalloc3DArray(array, format, extent, flags);
  });
}

MILLRACE_EXPORT cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t* array,
                                                     const cudaChannelFormatDesc* format,
                                                     cudaExtent extent, unsigned levels,
                                                     unsigned flags) {
  return passed(Function::cudaMallocMipmappedArray, [&](const Runtime& runtime) {
    return runtime.cudaMallocMipmappedArray(array, format, extent, levels, flags);
  });
}

// A graph with allocations takes its memory when it is uploaded or launched.
MILLRACE_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
  return passed(Function::cudaGraphUpload,
                [&](const Runtime& runtime) { return runtime.cudaGraphUpload(graph, stream); });
}
MILLRACE_EXPORT cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t graph, cudaStream_t stream) {
  return passed(Function::cudaGraphUpload, [&](const Runtime& runtime) {
    return runtime.cudaGraphUpload(graph, per_thread(stream));
  });
}
MILLRACE_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  return passed(Function::cudaGraphLaunch,
                [&](const Runtime& runtime) { return runtime.cudaGraphLaunch(graph, stream); });
}
MILLRACE_EXPORT cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t graph, cudaStream_t stream) {
  return passed(Function::cudaGraphLaunch, [&](const Runtime& runtime) {
    return runtime.cudaGraphLaunch(graph, per_thread(stream));
  });
}
