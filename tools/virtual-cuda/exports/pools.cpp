#include <algorithm>
#include <cstring>

#include "check/checker.hpp"
#include "engine/report.hpp"
#include "exports/entry.hpp"
#include "exports/memory.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace millrace::virtual_cuda {
bool in_pool(const Gpu& gpu, const void* address) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  return std::any_of(gpu.pools.begin(), gpu.pools.end(),
                     [&](const cudaMemPool_t pool) { return pool->live.contains(start); });
}

bool free_in_pool(const Gpu& gpu, const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return std::any_of(gpu.pools.begin(), gpu.pools.end(), [&](const cudaMemPool_t pool) {
    auto block = pool->free_blocks.upper_bound(value);
    if (block == pool->free_blocks.begin()) return false;
    --block;
    return value - block->first < block->second.bytes;
  });
}

cudaError_t free_to_pool(Lock& lock, Gpu& gpu, const void* address, CUstream_st& stream) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  for (const cudaMemPool_t pool : gpu.pools) {
    const auto block = pool->live.find(start);
    if (block == pool->live.end()) continue;
    if (CUstream_st* const owner = block->second.stream)
      note_allocated(*owner, -static_cast<std::ptrdiff_t>(block->second.bytes));
    OperationRef done;
    if (Checker* const check = checker()) check->pool_freed(address, stream);
    if (!quick()) enqueue(lock, stream, EmptyWork{}, {}, &done);
    pool->release(start, stream, done);
    if (pool->attributes.reserved > pool->attributes.release_threshold)
      gpu.excess.store(true, std::memory_order_relaxed);
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace millrace::virtual_cuda

namespace {

bool valid(cudaMemPool_t pool) {
  return pool != nullptr && pool->magic == CUmemPoolHandle_st::kMagic;
}

cudaError_t create(cudaMemPool_t* made, const cudaMemPoolProps* properties) {
  if (made == nullptr || properties == nullptr) return cudaErrorInvalidValue;
  if (properties->allocType != cudaMemAllocationTypePinned) return cudaErrorInvalidValue;
  if (properties->location.type != cudaMemLocationTypeDevice ||
      properties->handleTypes != cudaMemHandleTypeNone)
    return cudaErrorNotSupported;
  if (!is_gpu(properties->location.id)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  *made = make_pool(*runtime().gpus[static_cast<std::size_t>(properties->location.id)], false,
                    properties->maxSize);
  return cudaSuccess;
}

cudaError_t destroy(cudaMemPool_t pool) {
  if (!valid(pool) || pool->is_default) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  Gpu& gpu = *runtime().gpus[pool->device];
  // Memory that is still in use would outlive the pool; CUDA keeps such a pool until it is freed.
  runtime().engine.wait_for_all(lock);
  if (Checker* const check = checker()) check->synchronized_all();
  if (gpu.current_pool == pool) gpu.current_pool = gpu.default_pool;
  pool->attributes.release_threshold = 0;
  pool->trim(runtime().memory, 0);
  pool->magic = 0;
  if (pool->live.empty()) {
    std::erase(gpu.pools, pool);
    runtime().pools.give(pool);
  }
  return cudaSuccess;
}

cudaError_t allocate(void** address, std::size_t bytes, cudaMemPool_t pool, CUstream_st* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::allocate_async);
  Gpu& gpu = *runtime().gpus[stream->device];
  if (pool == nullptr) pool = gpu.current_pool;
  if (!valid(pool)) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_implicit(*stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    AllocWork work{runtime().memory.take(pool->device, bytes), bytes, {}};
    if (work.address == nullptr) return cudaErrorMemoryAllocation;
    work.properties.allocType = cudaMemAllocationTypePinned;
    work.properties.location = {cudaMemLocationTypeDevice, static_cast<int>(pool->device)};
    stream->capture->graph->memory->insert(work.address);
    *address = work.address;
    return submit(lock, *stream, work);
  }
  const CUmemPoolHandle_st::Grant grant =
      pool->allocate(runtime().memory, runtime().engine, bytes, *stream);
  if (grant.address == nullptr) return cudaErrorMemoryAllocation;
  *address = grant.address;
  if (Checker* const check = checker()) check->pool_allocated(*address, bytes, *stream);
  note_allocated(*stream, static_cast<std::ptrdiff_t>((bytes + Memory::kAlignment - 1) /
                                                      Memory::kAlignment * Memory::kAlignment));
  return grant.after.empty() ? cudaSuccess : submit(lock, *stream, EmptyWork{}, grant.after);
}

cudaError_t release(void* address, CUstream_st* stream) {
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (address == nullptr) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::free_async);
  const Memory& memory = runtime().memory;
  if (!memory.on_device(address)) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_implicit(*stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) return submit(lock, *stream, FreeWork{address});
  return free_to_pool(lock, *runtime().gpus[memory.gpu_of(address)], address, *stream);
}

/** Calls `use` with the attribute's place: an int for the reuse policies, else 64 bits. */
template <typename Use>
cudaError_t with_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, Use use) {
  CUmemPoolHandle_st::Attributes& all = pool.attributes;
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return use(all.follow_event_dependencies);
    case cudaMemPoolReuseAllowOpportunistic:
      return use(all.allow_opportunistic);
    case cudaMemPoolReuseAllowInternalDependencies:
      return use(all.allow_internal_dependencies);
    case cudaMemPoolAttrReleaseThreshold:
      return use(all.release_threshold);
    case cudaMemPoolAttrReservedMemCurrent:
      return use(all.reserved);
    case cudaMemPoolAttrReservedMemHigh:
      return use(all.reserved_high);
    case cudaMemPoolAttrUsedMemCurrent:
      return use(all.used);
    case cudaMemPoolAttrUsedMemHigh:
      return use(all.used_high);
  }
  return cudaErrorInvalidValue;
}

cudaError_t get_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (!valid(pool) || value == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  return with_attribute(*pool, attribute, [&](const auto& kept) {
    std::memcpy(value, &kept, sizeof kept);
    return cudaSuccess;
  });
}

cudaError_t set_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value) {
  if (!valid(pool) || value == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  CUmemPoolHandle_st::Attributes& all = pool->attributes;
  switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      return cudaErrorInvalidValue;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh: {
      std::uint64_t reset = 0;
      std::memcpy(&reset, value, sizeof reset);
      if (reset != 0) return cudaErrorInvalidValue;
      if (attribute == cudaMemPoolAttrUsedMemHigh) {
        all.used_high = all.used;
      } else {
        all.reserved_high = all.reserved;
      }
      return cudaSuccess;
    }
    default:
      return with_attribute(*pool, attribute, [&](auto& kept) {
        std::memcpy(&kept, value, sizeof kept);
        return cudaSuccess;
      });
  }
}

cudaError_t trim(cudaMemPool_t pool, std::size_t keep) {
  if (!valid(pool)) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::trim_pool);
  pool->trim(runtime().memory, keep);
  return cudaSuccess;
}

cudaError_t set_access(cudaMemPool_t pool, const cudaMemAccessDesc* access, std::size_t count) {
  if (!valid(pool) || (access == nullptr && count != 0)) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != cudaMemLocationTypeDevice || !is_gpu(access[i].location.id))
      return cudaErrorInvalidDevice;
    const auto gpu = static_cast<unsigned>(access[i].location.id);
    // The GPU that the memory lies on keeps its access.
    if (gpu == pool->device && access[i].flags != cudaMemAccessFlagsProtReadWrite)
      return cudaErrorInvalidValue;
    pool->access[gpu] = access[i].flags;
  }
  return cudaSuccess;
}

cudaError_t get_access(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                       const cudaMemLocation* location) {
  if (!valid(pool) || flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
  if (location->type != cudaMemLocationTypeDevice || !is_gpu(location->id))
    return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  const auto gpu = static_cast<unsigned>(location->id);
  *flags = gpu == pool->device ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
  if (const auto entry = pool->access.find(gpu); entry != pool->access.end())
    *flags = entry->second;
  return cudaSuccess;
}

cudaError_t pool_of(cudaMemPool_t* pool, int device, cudaMemPool_t Gpu::*which) {
  if (pool == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  *pool = runtime().gpus[static_cast<std::size_t>(device)].get()->*which;
  return cudaSuccess;
}

cudaError_t set_pool(int device, cudaMemPool_t pool) {
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  if (!valid(pool) || pool->device != static_cast<unsigned>(device)) return cudaErrorInvalidValue;
  runtime().gpus[static_cast<std::size_t>(device)]->current_pool = pool;
  return cudaSuccess;
}

}  // namespace

MILLRACE_TWINS(cudaMallocAsync, ptsz, (void** address, std::size_t bytes, cudaStream_t stream),
               return allocate(address, bytes, nullptr, find_stream(stream, meaning));)
MILLRACE_TWINS(cudaMallocFromPoolAsync, ptsz,
               (void** address, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
               return pool == nullptr
                          ? cudaErrorInvalidValue
                          : allocate(address, bytes, pool, find_stream(stream, meaning));)
MILLRACE_TWINS(cudaFreeAsync, ptsz, (void* address, cudaStream_t stream),
               return release(address, find_stream(stream, meaning));)
MILLRACE_CALL(cudaMemPoolCreate, (cudaMemPool_t * pool, const cudaMemPoolProps* properties),
              return create(pool, properties);)
MILLRACE_CALL(cudaMemPoolDestroy, (cudaMemPool_t pool), return destroy(pool);)
MILLRACE_CALL(cudaMemPoolGetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
              return get_attribute(pool, attribute, value);)
MILLRACE_CALL(cudaMemPoolSetAttribute, (cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value),
              return set_attribute(pool, attribute, value);)
MILLRACE_CALL(cudaMemPoolTrimTo, (cudaMemPool_t pool, std::size_t keep), return trim(pool, keep);)
MILLRACE_CALL(cudaMemPoolSetAccess,
              (cudaMemPool_t pool, const cudaMemAccessDesc* access, std::size_t count),
              return set_access(pool, access, count);)
MILLRACE_CALL(cudaMemPoolGetAccess,
              (cudaMemAccessFlags * flags, cudaMemPool_t pool, cudaMemLocation* location),
              return get_access(flags, pool, location);)
MILLRACE_CALL(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device),
              return pool_of(pool, device, &Gpu::default_pool);)
MILLRACE_CALL(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
              return pool_of(pool, device, &Gpu::current_pool);)
MILLRACE_CALL(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
              return set_pool(device, pool);)
