// cudaMalloc, cudaMallocAsync and their frees.

#include <functional>
#include <optional>

#include "exports/entry.hpp"
#include "exports/given_back.hpp"

using namespace millrace;
using namespace millrace::interpose;

namespace {

/** The result of `allocate`, or nullptr if it fails. Then the caller passes the request on to the
 * runtime, which returns its own error. */
template <typename Allocate>
void* attempt(Allocate allocate) {
  const KeepsLastError keeps;
  try {
    return allocate();
  } catch (const std::exception&) {
    return nullptr;
  }
}

/** Bytes that the GPU's current pool has reserved. */
std::size_t own_pool_bytes(const Runtime& runtime, int device) {
  const KeepsLastError keeps;
  cudaMemPool_t pool = nullptr;
  std::uint64_t bytes = 0;
  const bool known = runtime.cudaDeviceGetMemPool(&pool, device) == cudaSuccess &&
                     runtime.cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent,
                                                     &bytes) == cudaSuccess;
  return known ? bytes : 0;
}

/** What if: frees Millrace's blocks whose free was postponed during a capture. */
void free_later_ones(const Process& process, Gpu& gpu) {
  if (process.capturing()) return;
  for (void* const block : gpu.take_later()) gpu.free_completed(block);
}

/** Recording never changes what a call returns. */
template <typename Note>
void note(Note body) {
  const KeepsLastError keeps;
  try {
    body();
  } catch (const std::exception&) {  // no memory for it, or no such stream
  }
}

/** Records an allocation for a stream. `block` is Millrace's block, or nullptr. */
void note_allocated(Gpu& gpu, const void* address, void* block, std::size_t bytes,
                    cudaStream_t stream) {
  note([&] {
    const auto owner = block == nullptr ? std::nullopt : gpu.memory().caching().owner(block);
    gpu.log().allocated(address, bytes, owner ? *owner : gpu.known(stream));
  });
}

/** Records the runtime's answer to a request that Millrace did not serve.
 * @param gpu  the GPU that could have served it; may be nullptr
 * @param stream  nothing: memory for all streams */
void note_answer(Process& process, Function function, Gpu* gpu, cudaError_t error,
                 std::size_t bytes, std::optional<cudaStream_t> stream) {
  count_answer(process, function, error);
  if (gpu == nullptr || error != cudaErrorMemoryAllocation) return;
  gpu->count_out_of_memory(bytes);
  note([&] {
    gpu->log().out_of_memory(bytes, stream ? std::optional{gpu->known(*stream)} : std::nullopt);
  });
}

/** What if: Millrace's allocator also serves the request of the program's block at `address`. */
template <typename Allocate>
void* decide_beside(const Runtime& runtime, Gpu& gpu, void* address, const Gpu::Beside& beside,
                    Allocate allocate) {
  gpu.add_beside(address, beside, own_pool_bytes(runtime, gpu.ordinal()));
  void* const block = attempt(allocate);
  gpu.set_beside(address, block);
  return block;
}

cudaError_t allocate_for_all(const Runtime& runtime, Process& process, void** address,
                             std::size_t bytes) {
  process.note_allocating_thread();
  Gpu* const gpu = address == nullptr || bytes == 0 || process.settings.leaves_malloc
                       ? nullptr
                       : process.serving(current_device());
  if (gpu != nullptr && !process.settings.what_if) {
    settle(runtime, process, *gpu);
    if (void* const block = attempt([&] { return gpu->allocate_for_all(bytes); })) {
      note([&] { gpu->log().allocated_for_all(block, bytes); });
      *address = block;
      return cudaSuccess;
    }
  }
  const cudaError_t error =
      with_memory_given_back(runtime, process, [&] { return runtime.cudaMalloc(address, bytes); });
  note_answer(process, Function::cudaMalloc, gpu, error, bytes, std::nullopt);
  if (gpu != nullptr && process.settings.what_if && error == cudaSuccess) {
    decide_beside(runtime, *gpu, *address, {.bytes = bytes, .own_bytes = bytes}, [&] {
      free_later_ones(process, *gpu);  // Millrace would have synchronized the device for them
      return gpu->allocate_for_all(bytes);
    });
    note([&] { gpu->log().allocated_for_all(*address, bytes); });
  }
  return error;
}

/** @param pool_device  GPU of a pool that is served here; nothing for other pools */
template <typename Pass>
cudaError_t allocate(Process& process, Function function, void** address, std::size_t bytes,
                     cudaStream_t stream, std::optional<int> pool_device, Pass pass) {
  process.note_allocating_thread();
  const bool may_serve = address != nullptr && bytes != 0 && pool_device && !is_captured(stream) &&
                         device_of(stream) == *pool_device;
  Gpu* const gpu = may_serve ? process.serving(*pool_device) : nullptr;
  const auto take = [&] { return gpu->allocate(bytes, stream); };
  if (gpu != nullptr && !process.settings.what_if) {
    if (void* const block = attempt(take)) {
      note_allocated(*gpu, block, block, bytes, stream);
      *address = block;
      return cudaSuccess;
    }
  }
  const cudaError_t error = with_memory_given_back(real(), process, pass);
  note_answer(process, function, gpu, error, bytes, stream);
  if (gpu != nullptr && process.settings.what_if && error == cudaSuccess) {
    void* const block = decide_beside(real(), *gpu, *address, {.bytes = bytes}, take);
    note_allocated(*gpu, *address, block, bytes, stream);
  }
  return error;
}

/** Pools that are served: the device's default pool, and plain pools of the program. */
std::optional<int> served_current_pool(const Runtime& runtime, Process& process,
                                       cudaStream_t stream) {
  const int device = device_of(stream);
  if (device < 0) return std::nullopt;
  const KeepsLastError keeps;
  cudaMemPool_t pool = nullptr, own = nullptr;
  if (runtime.cudaDeviceGetMemPool(&pool, device) != cudaSuccess ||
      runtime.cudaDeviceGetDefaultMemPool(&own, device) != cudaSuccess) {
    return std::nullopt;
  }
  return pool == own ? std::optional{device} : process.served_pool(pool);
}

std::optional<int> served_pool(const Runtime& runtime, Process& process, cudaMemPool_t pool) {
  if (const auto made = process.served_pool(pool)) return made;
  const KeepsLastError keeps;
  const int device = current_device();
  cudaMemPool_t own = nullptr;
  if (runtime.cudaDeviceGetDefaultMemPool(&own, device) != cudaSuccess) return std::nullopt;
  return pool == own ? std::optional{device} : std::nullopt;
}

cudaError_t allocate_async(void** address, std::size_t bytes, cudaStream_t stream) {
  return entry(Function::cudaMallocAsync, [&](const Runtime& runtime, Process& process) {
    return allocate(process, Function::cudaMallocAsync, address, bytes, stream,
                    served_current_pool(runtime, process, stream),
                    [&] { return runtime.cudaMallocAsync(address, bytes, stream); });
  });
}

cudaError_t allocate_from_pool(void** address, std::size_t bytes, cudaMemPool_t pool,
                               cudaStream_t stream) {
  return entry(Function::cudaMallocFromPoolAsync, [&](const Runtime& runtime, Process& process) {
    return allocate(process, Function::cudaMallocFromPoolAsync, address, bytes, stream,
                    served_pool(runtime, process, pool),
                    [&] { return runtime.cudaMallocFromPoolAsync(address, bytes, pool, stream); });
  });
}

cudaError_t free_async(void* address, cudaStream_t stream) {
  return entry(Function::cudaFreeAsync, [&](const Runtime& runtime, Process& process) {
    return release(runtime, process, address, stream);
  });
}

/** The runtime's error for a stream that Millrace could not use. */
cudaError_t error_of(const Runtime& runtime, cudaStream_t stream) {
  unsigned flags = 0;
  const cudaError_t error = runtime.cudaStreamGetFlags(stream, &flags);
  return error == cudaSuccess ? cudaErrorInvalidValue : error;
}

/** What if: the program's free of its block, and the free of Millrace's block for the request. */
struct OwnFree {
  std::optional<StreamRef> stream;  ///< orders the free; nothing: the work is complete
  std::function<cudaError_t()> call;
  std::function<void(void*)> give;  ///< frees Millrace's block
};

cudaError_t free_beside(const Runtime& runtime, Gpu& gpu, void* address, const OwnFree& free) {
  const auto beside = gpu.take_beside(address);  // first: another thread may get the address
  if (!beside) return free.call();
  std::optional<std::uint64_t> noted;
  Point marker;
  note([&] {
    noted =
        free.stream ? gpu.log().freed(address, *free.stream) : gpu.log().freed_completed(address);
    if (noted && free.stream) marker = gpu.log().next_marker(*free.stream);
  });
  const cudaError_t error = free.call();
  if (error != cudaSuccess) {
    gpu.add_beside(address, *beside, own_pool_bytes(runtime, gpu.ordinal()));
    note([&] { gpu.log().not_freed(address, beside->bytes, free.stream); });
    return error;
  }
  note([&] {  // after an exception the block stays live here, and the figures are too high
    if (beside->block != nullptr) free.give(beside->block);
    if (noted && free.stream) gpu.log().await(*noted, marker);
  });
  return error;
}

cudaError_t free_beside(const Runtime& runtime, Process& process, Gpu& gpu, void* address) {
  OwnFree free;
  if (process.capturing()) {
    free.call = [&] { return runtime.cudaFree(address); };
    free.give = [&](void* block) { gpu.free_later(block); };
    return free_beside(runtime, gpu, address, free);
  }
  free.call = [&] {
    cudaError_t error = cudaSuccess;
    gpu.synchronize([&] {
      error = runtime.cudaFree(address);
      return error == cudaSuccess;
    });
    return error;
  };
  free.give = [&](void* block) {
    gpu.free_completed(block);
    free_later_ones(process, gpu);
  };
  return free_beside(runtime, gpu, address, free);
}

cudaError_t free_beside(const Runtime& runtime, Gpu& gpu, void* address, cudaStream_t stream) {
  OwnFree free;
  free.call = [&] { return runtime.cudaFreeAsync(address, stream); };
  if (device_of(stream) == gpu.ordinal()) {
    note([&] { free.stream = gpu.known(stream); });
    free.give = [&](void* block) { gpu.free(block, stream); };
  } else {
    free.stream = gpu.log().stream_of(address);
    free.give = [&](void* block) { static_cast<Allocator&>(gpu.memory()).deallocate(block); };
  }
  return free_beside(runtime, gpu, address, free);
}

/** @param waited  result of the wait for all uses of the memory; after an error it is not freed */
cudaError_t free_completed(cudaError_t waited, Gpu& gpu, void* address) {
  if (waited != cudaSuccess) return waited;
  note([&] { gpu.log().freed_completed(address); });
  const KeepsLastError keeps;
  gpu.free_completed(address);
  return cudaSuccess;
}

}  // namespace

namespace millrace::interpose {

// Like cudaFree, it waits for all work of the device, so that no stream uses the memory.
cudaError_t release(const Runtime& runtime, Process& process, void* address) {
  Gpu* const gpu = address == nullptr ? nullptr : process.owner_of(address);
  if (gpu == nullptr) {
    const cudaError_t error = runtime.cudaFree(address);
    if (address != nullptr) count_answer(process, Function::cudaFree, error);
    return error;
  }
  if (process.settings.what_if) return free_beside(runtime, process, *gpu, address);
  if (process.capturing()) {  // a synchronization would break the capture
    gpu->free_later(address);
    return cudaSuccess;
  }
  settle(runtime, process, *gpu);
  const CurrentGpu current{gpu->ordinal()};
  return free_completed(synchronize_device(runtime, gpu), *gpu, address);
}

cudaError_t release(const Runtime& runtime, Process& process, void* address, cudaStream_t stream) {
  Gpu* const gpu = address == nullptr ? nullptr : process.owner_of(address);
  if (gpu == nullptr || is_captured(stream)) {
    const cudaError_t error = runtime.cudaFreeAsync(address, stream);
    if (address != nullptr) count_answer(process, Function::cudaFreeAsync, error);
    return error;
  }
  if (process.settings.what_if) return free_beside(runtime, *gpu, address, stream);
  if (device_of(stream) != gpu->ordinal()) {  // the stream's order is not known here
    return free_completed(runtime.cudaStreamSynchronize(stream), *gpu, address);
  }
  const bool freed = [&] {
    const KeepsLastError keeps;
    try {
      const StreamRef named = gpu->known(stream);
      const auto block = gpu->log().freed(address, named);
      const Point marker = gpu->log().next_marker(named);
      gpu->free(address, stream);
      if (block) note([&] { gpu->log().await(*block, marker); });
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }();
  return freed ? cudaSuccess : error_of(runtime, stream);
}

}  // namespace millrace::interpose

MILLRACE_EXPORT cudaError_t cudaMalloc(void** address, std::size_t bytes) {
  return entry(Function::cudaMalloc, [&](const Runtime& runtime, Process& process) {
    return allocate_for_all(runtime, process, address, bytes);
  });
}

MILLRACE_EXPORT cudaError_t cudaFree(void* address) {
  return entry(Function::cudaFree, [&](const Runtime& runtime, Process& process) {
    return release(runtime, process, address);
  });
}

MILLRACE_EXPORT cudaError_t cudaMallocAsync(void** address, std::size_t bytes,
                                            cudaStream_t stream) {
  return allocate_async(address, bytes, stream);
}
MILLRACE_EXPORT cudaError_t cudaMallocAsync_ptsz(void** address, std::size_t bytes,
                                                 cudaStream_t stream) {
  return allocate_async(address, bytes, per_thread(stream));
}

MILLRACE_EXPORT cudaError_t cudaMallocFromPoolAsync(void** address, std::size_t bytes,
                                                    cudaMemPool_t pool, cudaStream_t stream) {
  return allocate_from_pool(address, bytes, pool, stream);
}
MILLRACE_EXPORT cudaError_t cudaMallocFromPoolAsync_ptsz(void** address, std::size_t bytes,
                                                         cudaMemPool_t pool, cudaStream_t stream) {
  return allocate_from_pool(address, bytes, pool, per_thread(stream));
}

MILLRACE_EXPORT cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  return free_async(address, stream);
}
MILLRACE_EXPORT cudaError_t cudaFreeAsync_ptsz(void* address, cudaStream_t stream) {
  return free_async(address, per_thread(stream));
}
