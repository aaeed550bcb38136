#include "exports/memory.hpp"

#include <cstring>

#include "check/checker.hpp"
#include "engine/kernels.hpp"
#include "exports/entry.hpp"
#include "millrace/round_up.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

using Kind = Memory::Kind;

constexpr std::size_t kPitchUnit = 512;

cudaError_t allocate(void** address, std::size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::allocate);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  *address = runtime().memory.take(runtime().current_gpu().ordinal, bytes);
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  if (Checker* const check = checker()) check->allocated(*address, bytes);
  return cudaSuccess;
}

cudaError_t release(void* address) {
  if (address == nullptr) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::free);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  Memory& memory = runtime().memory;
  const bool on_device = memory.on_device(address);
  Gpu& gpu = on_device ? *runtime().gpus[memory.gpu_of(address)] : runtime().current_gpu();
  if (pool_of_block(address) != nullptr) {
    synchronize(lock, gpu);
    const cudaMemPool_t pool = pool_of_block(address);  // the wait may have released the lock
    if (pool == nullptr) return cudaErrorInvalidValue;
    free_to_pool(lock, *pool, address, gpu.legacy);
    return cudaSuccess;
  }
  if (!on_device && memory.kind_of(address) != Kind::managed) return cudaErrorInvalidValue;
  if (runtime().graph_memory.allocated(address)) {
    synchronize(lock, gpu);
    const cudaError_t error = free_of_graph(lock, address, gpu.legacy);
    synchronize(lock, gpu);
    return error;
  }
  // Memory of a graph that is not allocated now.
  if (runtime().graph_memory.holds(address)) return cudaErrorInvalidValue;
  if (gpu.profile.free_synchronizes) synchronize(lock, gpu);
  if (Checker* const check = checker()) check->freed(address, on_device);
  const bool given = on_device ? memory.give(address) : memory.give_host(address, Kind::managed);
  return given ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t allocate_pitch(void** address, std::size_t* pitch, std::size_t width,
                           std::size_t rows) {
  if (pitch == nullptr) return cudaErrorInvalidValue;
  *pitch = round_up(width, kPitchUnit);
  return allocate(address, *pitch * rows);
}

cudaError_t allocate_box(cudaPitchedPtr* made, cudaExtent extent) {
  if (made == nullptr) return cudaErrorInvalidValue;
  *made = {nullptr, 0, extent.width, extent.height};
  return allocate_pitch(&made->ptr, &made->pitch, extent.width, extent.height * extent.depth);
}

cudaError_t allocate_host(void** address, std::size_t bytes, unsigned flags, Kind kind) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return kind == Kind::managed ? cudaErrorInvalidValue : cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::allocate_host);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  *address = runtime().memory.take_host(bytes, {bytes, kind, flags, this_thread->device});
  if (*address == nullptr) return cudaErrorMemoryAllocation;
  if (Checker* const check = checker()) check->allocated(*address, bytes);
  return cudaSuccess;
}

cudaError_t host_alloc(void** address, std::size_t bytes, unsigned flags) {
  constexpr unsigned kFlags =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kFlags) != 0) return cudaErrorInvalidValue;
  return allocate_host(address, bytes, flags, Kind::pinned);
}

cudaError_t allocate_managed(void** address, std::size_t bytes, unsigned flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost) return cudaErrorInvalidValue;
  return allocate_host(address, bytes, flags, Kind::managed);
}

// Waits for all work, because the runtime must not write to freed memory.
cudaError_t release_host(void* address) {
  if (address == nullptr) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::free_host);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  runtime().engine.wait_for_all(lock);
  if (Checker* const check = checker()) {
    check->synchronized_all();
    if (runtime().memory.kind_of(address) == Kind::pinned) check->freed(address, false);
  }
  return runtime().memory.give_host(address, Kind::pinned) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t register_host(void* address, std::size_t bytes, unsigned flags) {
  if (address == nullptr || bytes == 0 || flags > 0xf) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::allocate_host);
  if (const cudaError_t error = check_unsafe(lock); error != cudaSuccess) return error;
  return runtime().memory.register_host(address,
                                        {bytes, Kind::registered, flags, this_thread->device})
             ? cudaSuccess
             : cudaErrorHostMemoryAlreadyRegistered;
}

cudaError_t unregister_host(void* address) {
  Lock lock = lock_engine();
  spend(lock, Call::free_host);
  runtime().engine.wait_for_all(lock);
  if (runtime().memory.unregister_host(address)) return cudaSuccess;
  return runtime().memory.host_range(address) != nullptr ? cudaErrorInvalidValue
                                                         : cudaErrorHostMemoryNotRegistered;
}

cudaError_t device_pointer(void** made, void* host, unsigned flags) {
  if (made == nullptr || flags != 0) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  if (runtime().memory.host_range(host) == nullptr) return cudaErrorInvalidValue;
  *made = host;
  return cudaSuccess;
}

cudaError_t host_flags(unsigned* flags, void* host) {
  if (flags == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const Memory::HostRange* const range = runtime().memory.host_range(host);
  if (range == nullptr) return cudaErrorInvalidValue;
  *flags = range->flags | cudaHostAllocMapped;
  return cudaSuccess;
}

cudaError_t memory_info(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::memory_info);
  runtime().ranges.drop_closed();
  *total = runtime().memory.total();
  *free = *total - runtime().memory.used(runtime().current_gpu().ordinal);
  return cudaSuccess;
}

}  // namespace

namespace millrace::virtual_cuda {

cudaPointerAttributes pointer_attributes(const void* address) {
  const Memory& memory = runtime().memory;
  auto* const pointer = const_cast<void*>(address);
  cudaPointerAttributes all{};
  if (memory.on_device(address)) {
    const Gpu& gpu = *runtime().gpus[memory.gpu_of(address)];
    const bool mapped =
        runtime().ranges.mapping(reinterpret_cast<std::uintptr_t>(address)).has_value();
    if (mapped || (memory.piece(address) && !free_in_pool(address))) {
      all.type = cudaMemoryTypeDevice;
      all.device = static_cast<int>(gpu.ordinal);
      all.devicePointer = pointer;
      return all;
    }
  } else if (const Memory::HostRange* const range = memory.host_range(address);
             range != nullptr && !free_in_pool(address)) {
    all.type = range->kind == Kind::managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    all.device = range->device;
    all.devicePointer = all.hostPointer = pointer;
    return all;
  }
  all.type = cudaMemoryTypeUnregistered;
  all.device = cudaInvalidDeviceId;
  all.hostPointer = pointer;
  return all;
}

}  // namespace millrace::virtual_cuda

MILLRACE_CALL(cudaMalloc, (void** address, std::size_t bytes), return allocate(address, bytes);)
MILLRACE_CALL(cudaFree, (void* address), return release(address);)
MILLRACE_CALL(cudaMallocPitch,
              (void** address, std::size_t* pitch, std::size_t width, std::size_t height),
              return allocate_pitch(address, pitch, width, height);)
MILLRACE_CALL(cudaMalloc3D, (cudaPitchedPtr * made, cudaExtent extent),
              return allocate_box(made, extent);)
MILLRACE_CALL(cudaMallocHost, (void** address, std::size_t bytes),
              return host_alloc(address, bytes, cudaHostAllocDefault);)
MILLRACE_CALL(cudaHostAlloc, (void** address, std::size_t bytes, unsigned flags),
              return host_alloc(address, bytes, flags);)
MILLRACE_CALL(cudaFreeHost, (void* address), return release_host(address);)
MILLRACE_CALL(cudaMallocManaged, (void** address, std::size_t bytes, unsigned flags),
              return allocate_managed(address, bytes, flags);)
MILLRACE_CALL(cudaHostRegister, (void* address, std::size_t bytes, unsigned flags),
              return register_host(address, bytes, flags);)
MILLRACE_CALL(cudaHostUnregister, (void* address), return unregister_host(address);)
MILLRACE_CALL(cudaHostGetDevicePointer, (void** made, void* host, unsigned flags),
              return device_pointer(made, host, flags);)
MILLRACE_CALL(cudaHostGetFlags, (unsigned* flags, void* host), return host_flags(flags, host);)
MILLRACE_CALL(cudaMemGetInfo, (std::size_t * free, std::size_t* total),
              return memory_info(free, total);)
MILLRACE_CALL(cudaGetSymbolSize, (std::size_t * bytes, const void* symbol),
              const Variable* const variable = find_variable(symbol);
              if (variable == nullptr) return cudaErrorInvalidSymbol;
              if (bytes == nullptr) return cudaErrorInvalidValue; *bytes = variable->bytes;
              return cudaSuccess;)
