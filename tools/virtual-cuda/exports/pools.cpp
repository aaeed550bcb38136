#include <algorithm>
#include <cstring>

#include "check/checker.hpp"
#include "engine/report.hpp"
#include "exports/entry.hpp"
#include "exports/memory.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace millrace::virtual_cuda {
namespace {

// The pool near `address` for which `holds` is true.
template <typename Holds>
cudaMemPool_t find_pool(const void* address, Holds holds) {
  const Memory& memory = runtime().memory;
  if (!memory.on_device(address)) {
    const Memory::HostRange* const range = memory.host_range(address);
    if (range == nullptr || range->pool == nullptr) return nullptr;
    return holds(*range->pool) ? range->pool : nullptr;
  }
  const auto& pools = runtime().gpus[memory.gpu_of(address)]->pools;
  const auto found = std::find_if(pools.begin(), pools.end(),
                                  [&](const cudaMemPool_t pool) { return holds(*pool); });
  return found == pools.end() ? nullptr : *found;
}

}  // namespace

cudaMemPool_t pool_of_block(const void* address) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  return find_pool(address,
                   [&](const CUmemPoolHandle_st& pool) { return pool.live.contains(start); });
}

cudaMemPool_t pool_around(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return find_pool(address, [&](const CUmemPoolHandle_st& pool) {
    return pool.in_use(value) != pool.live.end();
  });
}

bool free_in_pool(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return find_pool(address, [&](const CUmemPoolHandle_st& pool) {
           return pool.holds_free(value);
         }) != nullptr;
}

cudaError_t free_of_graph(Lock& lock, void* address, CUstream_st& stream) {
  if (!runtime().graph_memory.allocated(address)) return cudaErrorInvalidValue;
  OperationRef done;
  enqueue(lock, stream, FreeWork{address}, {}, &done);
  // Another thread may have freed it during `enqueue`.
  return runtime().graph_memory.release(address, done) ? cudaSuccess : cudaErrorInvalidValue;
}

void free_to_pool(Lock& lock, CUmemPoolHandle_st& pool, const void* address, CUstream_st& stream) {
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  CUmemPoolHandle_st::Live& block = pool.live.at(start);
  if (block.imports != 0) {
    --block.imports;
    return;
  }
  if (block.stream != nullptr)
    note_allocated(*block.stream, -static_cast<std::ptrdiff_t>(block.bytes));
  OperationRef done;
  if (Checker* const check = checker()) check->pool_freed(address, stream);
  if (!quick()) enqueue(lock, stream, EmptyWork{}, {}, &done);
  pool.release(start, stream, done);
  // A synchronization of the GPU whose stream freed host memory returns that memory.
  const unsigned gpu = pool.place.on_gpu() ? pool.device : stream.device;
  if (pool.attributes.reserved > pool.attributes.release_threshold)
    runtime().gpus[gpu]->excess.store(true, std::memory_order_relaxed);
}

}  // namespace millrace::virtual_cuda

namespace {

// The host has one NUMA node. If the location's type needs no number, the number becomes 0.
cudaError_t find_place(PoolPlace& place, const cudaMemLocation& location,
                       cudaMemAllocationType type) {
  place = {type, location};
  if (type != cudaMemAllocationTypePinned && type != cudaMemAllocationTypeManaged)
    return cudaErrorInvalidValue;
  switch (location.type) {
    case cudaMemLocationTypeDevice:
      return is_gpu(location.id) ? cudaSuccess : cudaErrorInvalidDevice;
    case cudaMemLocationTypeHostNuma:
      return location.id == 0 ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemLocationTypeHost:
      place.location.id = 0;
      return cudaSuccess;
    case cudaMemLocationTypeInvalid:  // also called "none": managed memory without a preference
      place.location.id = 0;
      return type == cudaMemAllocationTypeManaged ? cudaSuccess : cudaErrorInvalidValue;
    case cudaMemLocationTypeHostNumaCurrent:
      break;
  }
  return cudaErrorInvalidValue;
}

// NVIDIA's runtime makes a managed pool at the current NUMA node, and the host has one node. The
// error for a GPU that does not exist differs from other pools.
cudaError_t find_place_of_managed(PoolPlace& place, cudaMemLocation location) {
  if (location.type == cudaMemLocationTypeHostNumaCurrent)
    location = {cudaMemLocationTypeHostNuma, 0};
  const cudaError_t error = find_place(place, location, cudaMemAllocationTypeManaged);
  return error == cudaErrorInvalidDevice ? cudaErrorInvalidValue : error;
}

// cudaMemPoolCreateUsageHwDecompress
constexpr unsigned short kDecompression = 2;

cudaError_t create(cudaMemPool_t* made, const cudaMemPoolProps* properties) {
  if (made == nullptr || properties == nullptr) return cudaErrorInvalidValue;
  PoolPlace place;
  const bool managed = properties->allocType == cudaMemAllocationTypeManaged;
  const cudaError_t error = managed
                                ? find_place_of_managed(place, properties->location)
                                : find_place(place, properties->location, properties->allocType);
  if (error != cudaSuccess) return error;
  const bool shared = properties->handleTypes != cudaMemHandleTypeNone;
  if (managed && (shared || properties->maxSize != 0)) return cudaErrorInvalidValue;
  if (shared && place.location.type == cudaMemLocationTypeHost) return cudaErrorInvalidValue;
  // No GPU here is in a fabric.
  if (shared && properties->handleTypes != cudaMemHandleTypePosixFileDescriptor)
    return cudaErrorNotSupported;
  const Lock lock = lock_engine();
  *made = make_pool(place, false, properties->maxSize);
  (*made)->exportable = shared;
  (*made)->decompressed = (properties->usage & kDecompression) != 0;
  return cudaSuccess;
}

// Ends the use of a pool as the current pool of its place.
void retire(cudaMemPool_t pool) {
  if (pool->place.on_gpu()) {
    Gpu& gpu = *runtime().gpus[pool->device];
    if (gpu.current_pool == pool) gpu.current_pool = gpu.default_pool;
  }
  for (Runtime::HostPlace& host : runtime().host_places)
    if (host.current == pool) host.current = host.usual;
}

cudaError_t destroy(cudaMemPool_t pool) {
  if (!is_pool(pool) || pool->is_default) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  // CUDA keeps a destroyed pool until its last block is freed.
  runtime().engine.wait_for_all(lock);
  if (Checker* const check = checker()) check->synchronized_all();
  retire(pool);
  pool->attributes.release_threshold = 0;
  pool->trim(runtime().memory, 0);
  pool->magic = 0;
  if (pool->live.empty()) {
    std::erase(pools_beside(*pool), pool);
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
  if (!is_pool(pool) || pool->origin != 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_implicit(*stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    if (!pool->place.on_gpu()) return cudaErrorNotSupported;
    AllocWork work{runtime().graph_memory.take(pool->device, bytes), bytes, {}};
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
  const bool on_device = runtime().memory.on_device(address);
  const cudaMemPool_t pool = pool_of_block(address);
  if (!on_device && pool == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_implicit(*stream); error != cudaSuccess) return error;
  if (stream->capture != nullptr)
    return on_device ? submit(lock, *stream, FreeWork{address}) : cudaErrorNotSupported;
  if (pool == nullptr) return free_of_graph(lock, address, *stream);
  free_to_pool(lock, *pool, address, *stream);
  return cudaSuccess;
}

/** Calls `use` with the attribute: an int for a reuse policy, 64 bits for others. */
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
  if (!is_pool(pool) || value == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  return with_attribute(*pool, attribute, [&](const auto& kept) {
    std::memcpy(value, &kept, sizeof kept);
    return cudaSuccess;
  });
}

cudaError_t set_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value) {
  if (!is_pool(pool) || value == nullptr) return cudaErrorInvalidValue;
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
  if (!is_pool(pool)) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::trim_pool);
  pool->trim(runtime().memory, keep);
  return cudaSuccess;
}

cudaError_t set_access(cudaMemPool_t pool, const cudaMemAccessDesc* access, std::size_t count) {
  if (!is_pool(pool) || (access == nullptr && count != 0)) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  for (std::size_t i = 0; i < count; ++i) {
    if (access[i].location.type != cudaMemLocationTypeDevice || !is_gpu(access[i].location.id))
      return cudaErrorInvalidDevice;
    const auto gpu = static_cast<unsigned>(access[i].location.id);
    // A GPU always has access to its own memory.
    if (pool->place.on_gpu() && gpu == pool->device &&
        access[i].flags != cudaMemAccessFlagsProtReadWrite)
      return cudaErrorInvalidValue;
    pool->access[gpu] = access[i].flags;
  }
  return cudaSuccess;
}

cudaError_t get_access(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                       const cudaMemLocation* location) {
  if (!is_pool(pool) || flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
  const bool on_host = location->type == cudaMemLocationTypeHost && !pool->place.on_gpu();
  if (!on_host && (location->type != cudaMemLocationTypeDevice || !is_gpu(location->id)))
    return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  const auto gpu = static_cast<unsigned>(location->id);
  const bool own =
      on_host ? pool->kind() == Memory::Kind::pinned : pool->place.on_gpu() && gpu == pool->device;
  // All processors may use managed memory. Its pool reports only explicit settings.
  const auto set = on_host ? pool->access.end() : pool->access.find(gpu);
  *flags = own                         ? cudaMemAccessFlagsProtReadWrite
           : set != pool->access.end() ? set->second
                                       : cudaMemAccessFlagsProtNone;
  return cudaSuccess;
}

// The pools of a place of the host. The first call makes the default pool. Called under the lock.
Runtime::HostPlace& host_pools_at(const PoolPlace& place) {
  std::vector<Runtime::HostPlace>& all = runtime().host_places;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Runtime::HostPlace& known) {
    return known.place == place;
  });
  if (found != all.end()) return *found;
  const cudaMemPool_t made = make_pool(place, true, 0);
  return all.emplace_back(Runtime::HostPlace{place, made, made});
}

cudaMemLocation location_of(int device) { return {cudaMemLocationTypeDevice, device}; }

cudaError_t pool_of(cudaMemPool_t* pool, int device, WhichPool which) {
  const cudaMemLocation location = location_of(device);
  return get_pool(pool, &location, cudaMemAllocationTypePinned, which);
}

cudaError_t set_pool_of(int device, cudaMemPool_t pool) {
  const cudaMemLocation location = location_of(device);
  return set_pool(&location, cudaMemAllocationTypePinned, pool);
}

}  // namespace

namespace millrace::virtual_cuda {

cudaError_t get_pool(cudaMemPool_t* pool, const cudaMemLocation* location,
                     cudaMemAllocationType type, WhichPool which) {
  if (pool == nullptr || location == nullptr) return cudaErrorInvalidValue;
  PoolPlace place;
  if (const cudaError_t error = find_place(place, *location, type); error != cudaSuccess)
    return error;
  const Lock lock = lock_engine();
  if (place.on_gpu()) {
    const Gpu& gpu = *runtime().gpus[static_cast<std::size_t>(location->id)];
    *pool = which == WhichPool::usual ? gpu.default_pool : gpu.current_pool;
  } else {
    const Runtime::HostPlace& host = host_pools_at(place);
    *pool = which == WhichPool::usual ? host.usual : host.current;
  }
  return cudaSuccess;
}

cudaError_t set_pool(const cudaMemLocation* location, cudaMemAllocationType type,
                     cudaMemPool_t pool) {
  if (location == nullptr) return cudaErrorInvalidValue;
  PoolPlace place;
  if (const cudaError_t error = find_place(place, *location, type); error != cudaSuccess)
    return error;
  const Lock lock = lock_engine();
  if (!is_pool(pool) || pool->origin != 0 || !(pool->place == place)) return cudaErrorInvalidValue;
  if (place.on_gpu()) {
    runtime().gpus[pool->device]->current_pool = pool;
  } else {
    host_pools_at(place).current = pool;
  }
  return cudaSuccess;
}

}  // namespace millrace::virtual_cuda

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
              return pool_of(pool, device, WhichPool::usual);)
MILLRACE_CALL(cudaDeviceGetMemPool, (cudaMemPool_t * pool, int device),
              return pool_of(pool, device, WhichPool::current);)
MILLRACE_CALL(cudaDeviceSetMemPool, (int device, cudaMemPool_t pool),
              return set_pool_of(device, pool);)
