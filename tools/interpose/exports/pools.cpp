// The driver's pools. Millrace serves requests to a device's default pool, and to a plain pool of
// the program: device memory without limits. Requests to other pools are passed on: pools that can
// be exported, that have a maximum size, or that have host memory.

#include <cstring>

#include "exports/entry.hpp"

using namespace millrace;
using namespace millrace::interpose;

namespace {

/** Whether a pool needs no feature that only the driver has. */
bool is_plain(const cudaMemPoolProps& properties) {
  return properties.allocType == cudaMemAllocationTypePinned &&
         properties.handleTypes == cudaMemHandleTypeNone &&
         properties.location.type == cudaMemLocationTypeDevice && properties.maxSize == 0 &&
         properties.usage == 0;
}

std::optional<int> device_of_default(const Runtime& runtime, cudaMemPool_t pool) {
  const KeepsLastError keeps;
  int count = 0;
  if (runtime.cudaGetDeviceCount(&count) != cudaSuccess) return std::nullopt;
  for (int device = 0; device < count; ++device) {
    cudaMemPool_t own = nullptr;
    if (runtime.cudaDeviceGetDefaultMemPool(&own, device) == cudaSuccess && own == pool)
      return device;
  }
  return std::nullopt;
}

std::optional<int> served(const Runtime& runtime, Process& process, cudaMemPool_t pool) {
  const auto made = process.served_pool(pool);
  return made ? made : device_of_default(runtime, pool);
}

/** Millrace's figure for one of the four attributes that count bytes. */
std::optional<std::uint64_t> bytes_of(Gpu& gpu, cudaMemPoolAttr attribute) {
  const MemoryGauges bytes = gpu.memory().statistics().bytes;
  switch (attribute) {
    case cudaMemPoolAttrReservedMemCurrent:
      return bytes.reserved.current;
    case cudaMemPoolAttrReservedMemHigh:
      return bytes.reserved.peak;
    case cudaMemPoolAttrUsedMemCurrent:
      return bytes.allocated.current;
    case cudaMemPoolAttrUsedMemHigh:
      return bytes.allocated.peak;
    default:
      return std::nullopt;
  }
}

}  // namespace

MILLRACE_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool,
                                              const cudaMemPoolProps* properties) {
  return entry(Function::cudaMemPoolCreate, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaMemPoolCreate(pool, properties);
    if (error == cudaSuccess && is_plain(*properties))
      process.add_pool(*pool, properties->location.id);
    return error;
  });
}

// As with CUDA, memory of the pool stays valid until it is freed.
MILLRACE_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return entry(Function::cudaMemPoolDestroy, [&](const Runtime& runtime, Process& process) {
    process.drop_pool(pool);
    return runtime.cudaMemPoolDestroy(pool);
  });
}

MILLRACE_EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
  return entry(Function::cudaMemPoolTrimTo, [&](const Runtime& runtime, Process& process) {
    const auto device = served(runtime, process, pool);
    if (Gpu* const gpu = device ? process.find(*device) : nullptr) {
      const KeepsLastError keeps;
      gpu->memory().trim(keep);
      gpu->log().pool_trimmed(keep);
    }
    return runtime.cudaMemPoolTrimTo(pool, keep);
  });
}

// The report uses the release threshold, for the memory that the pool would have kept.
MILLRACE_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                    void* value) {
  return entry(Function::cudaMemPoolSetAttribute, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaMemPoolSetAttribute(pool, attribute, value);
    if (error != cudaSuccess || attribute != cudaMemPoolAttrReleaseThreshold) return error;
    if (const auto device = served(runtime, process, pool)) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, value, sizeof bytes);
      process.set_kept(pool, *device, bytes);
    }
    return error;
  });
}

// The default pool's figures include all of Millrace's memory of its GPU.
MILLRACE_EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                    void* value) {
  return entry(Function::cudaMemPoolGetAttribute, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaMemPoolGetAttribute(pool, attribute, value);
    if (error != cudaSuccess) return error;
    const auto device = device_of_default(runtime, pool);
    Gpu* const gpu = device && !process.settings.what_if ? process.find(*device) : nullptr;
    const auto held = gpu == nullptr ? std::nullopt : bytes_of(*gpu, attribute);
    if (!held) return error;
    std::uint64_t own = 0;
    std::memcpy(&own, value, sizeof own);
    own += *held;
    std::memcpy(value, &own, sizeof own);
    return error;
  });
}

// Other GPUs that get access to the pool also get access to Millrace's memory.
MILLRACE_EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool,
                                                 const cudaMemAccessDesc* access,
                                                 std::size_t count) {
  return entry(Function::cudaMemPoolSetAccess, [&](const Runtime& runtime, Process& process) {
    const cudaError_t error = runtime.cudaMemPoolSetAccess(pool, access, count);
    const auto device = served(runtime, process, pool);
    if (error != cudaSuccess || !device) return error;
    const KeepsLastError keeps;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_other =
          access[i].location.type == cudaMemLocationTypeDevice && access[i].location.id != *device;
      if (is_other && access[i].flags != cudaMemAccessFlagsProtNone)
        process.enable_peer(access[i].location.id, *device);
    }
    return error;
  });
}
