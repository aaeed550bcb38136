#include "exports/memory.hpp"

#include <cstring>

#include "abi/functions.h"
#include "driver/contexts.hpp"
#include "exports/refuse.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

/** Facts about an address. `know` needs the engine's lock. */
struct Known {
  cudaPointerAttributes attributes;
  Memory::Range range;  ///< the allocation or mapping that holds it
  CUmemoryPool pool = nullptr;
};

Known know(const void* address) {
  Known known{pointer_attributes(address), {}, nullptr};
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  const Memory& memory = runtime().memory;
  if (known.attributes.type == cudaMemoryTypeUnregistered) return known;
  if (const cudaMemPool_t pool = pool_around(address)) {
    const auto block = pool->in_use(value);
    known.range = {block->first, block->second.bytes};
    known.pool = pool;
  } else if (!memory.on_device(address)) {
    std::uintptr_t start = 0;
    const Memory::HostRange* const host = memory.host_range(address, &start);
    known.range = {start, host->bytes};
  } else if (const auto mapping = runtime().ranges.mapping(value)) {
    known.range = *mapping;
  } else if (const auto piece = memory.piece(address)) {
    known.range = *piece;
  }
  return known;
}

template <typename Value>
cudaError_t put(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return cudaSuccess;
}

/** Whether a decompression engine may use the memory: memory of cudaMalloc, or of a pool that was
 *  made for this use. Mapped memory never counts, even if it was made for this use. */
bool decompressed(const void* address, const Known& known) {
  if (known.pool != nullptr) return known.pool->decompressed;
  return runtime().memory.in_gpu(address);
}

cudaError_t attribute(void* out, CUpointer_attribute which, const void* address,
                      const Known& known) {
  const cudaPointerAttributes& all = known.attributes;
  const bool managed = all.type == cudaMemoryTypeManaged;
  const bool on_host = all.type == cudaMemoryTypeHost;
  const auto ordinal = static_cast<std::size_t>(all.device < 0 ? 0 : all.device);
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put<CUcontext>(out, &runtime().gpus[ordinal]->primary);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(out, on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(out, address_of(address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!on_host && !managed) return cudaErrorInvalidValue;
      return put(out, address);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return put<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return put<bool>(out, decompressed(address, known));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put<unsigned long long>(out, known.range.begin);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put<unsigned>(out, managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put<int>(out, all.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put<CUdeviceptr>(out, known.range.begin);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put<std::size_t>(out, known.range.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<unsigned>(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put<unsigned long long>(out, known.pool != nullptr && known.pool->exportable
                                              ? cudaMemHandleTypePosixFileDescriptor
                                              : cudaMemHandleTypeNone);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put<unsigned>(out, cudaMemAccessFlagsProtReadWrite);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, known.pool);
  }
  return refuse("cuPointerGetAttribute", "an attribute of memory that is shared or compressed");
}

cudaError_t pointer_attribute(void* out, CUpointer_attribute which, CUdeviceptr address) {
  if (out == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const Known known = know(pointer(address));
  if (known.attributes.type == cudaMemoryTypeUnregistered) return cudaErrorInvalidValue;
  return attribute(out, which, pointer(address), known);
}

// For memory unknown to CUDA, this function returns zeros. cuPointerGetAttribute fails instead.
cudaError_t pointer_attributes_of(unsigned count, const CUpointer_attribute* which, void** out,
                                  CUdeviceptr address) {
  if (count == 0 || which == nullptr || out == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const Known known = know(pointer(address));
  const bool unknown = known.attributes.type == cudaMemoryTypeUnregistered;
  for (unsigned i = 0; i < count; ++i) {
    const bool ordinal = which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    const bool narrow = ordinal || which[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                        which[i] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
                        which[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                        which[i] == CU_POINTER_ATTRIBUTE_MAPPED ||
                        which[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS;
    if (!unknown) {
      const cudaError_t error = attribute(out[i], which[i], pointer(address), known);
      // Device memory has no host address: the result is null, without an error.
      if (error == cudaErrorInvalidValue) static_cast<void>(put<void*>(out[i], nullptr));
      if (error != cudaSuccess && error != cudaErrorInvalidValue) return error;
    } else if (narrow) {
      static_cast<void>(put<int>(out[i], ordinal ? cudaInvalidDeviceId : 0));
    } else {
      static_cast<void>(put<void*>(out[i], nullptr));
    }
  }
  return cudaSuccess;
}

cudaError_t address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const Lock lock = lock_engine();
  const Known known = know(pointer(address));
  // As in NVIDIA's driver, memory of a pinned host pool has no range.
  const bool pinned_pool = known.pool != nullptr && known.pool->kind() == Memory::Kind::pinned;
  if (known.attributes.type == cudaMemoryTypeUnregistered || pinned_pool)
    return cudaErrorSymbolNotFound;
  if (base != nullptr) *base = known.range.begin;
  if (bytes != nullptr) *bytes = known.range.bytes;
  return cudaSuccess;
}

cudaError_t allocate_pitch(CUdeviceptr* made, std::size_t* pitch, std::size_t width,
                           std::size_t height, unsigned element) {
  if (element != 4 && element != 8 && element != 16) return cudaErrorInvalidValue;
  return give_address(
      made, [&](void** out) { return MILLRACE_AS(cudaMallocPitch, out, pitch, width, height); });
}

cudaError_t some(std::size_t bytes) { return bytes == 0 ? cudaErrorInvalidValue : cudaSuccess; }

}  // namespace

MILLRACE_CONTEXT_CALL(cuMemGetInfo_v2, (std::size_t * free, std::size_t* total),
                      return MILLRACE_AS(cudaMemGetInfo, free, total);)
MILLRACE_CONTEXT_CALL(cuMemAlloc_v2, (CUdeviceptr * made, std::size_t bytes),
                      if (some(bytes) != cudaSuccess) return cudaErrorInvalidValue;
                      return give_address(made, [&](void** out) {
                        return MILLRACE_AS(cudaMalloc, out, bytes);
                      });)
MILLRACE_CONTEXT_CALL(cuMemAllocPitch_v2,
                      (CUdeviceptr * made, std::size_t* pitch, std::size_t width,
                       std::size_t height, unsigned element),
                      return allocate_pitch(made, pitch, width, height, element);)
MILLRACE_CONTEXT_CALL(cuMemFree_v2, (CUdeviceptr address),
                      return MILLRACE_AS(cudaFree, pointer(address));)
MILLRACE_CONTEXT_CALL(cuMemGetAddressRange_v2,
                      (CUdeviceptr * base, std::size_t* bytes, CUdeviceptr address),
                      return address_range(base, bytes, address);)
MILLRACE_CONTEXT_CALL(cuMemAllocHost_v2, (void** made, std::size_t bytes),
                      if (some(bytes) != cudaSuccess) return cudaErrorInvalidValue;
                      return MILLRACE_AS(cudaMallocHost, made, bytes);)
MILLRACE_CONTEXT_CALL(cuMemHostAlloc, (void** made, std::size_t bytes, unsigned flags),
                      if (some(bytes) != cudaSuccess) return cudaErrorInvalidValue;
                      return MILLRACE_AS(cudaHostAlloc, made, bytes, flags);)
MILLRACE_CONTEXT_CALL(cuMemFreeHost, (void* address), return MILLRACE_AS(cudaFreeHost, address);)
MILLRACE_CONTEXT_CALL(cuMemHostGetDevicePointer_v2,
                      (CUdeviceptr * made, void* host, unsigned flags),
                      return give_address(made, [&](void** out) {
                        return MILLRACE_AS(cudaHostGetDevicePointer, out, host, flags);
                      });)
MILLRACE_CONTEXT_CALL(cuMemHostGetFlags, (unsigned* flags, void* host),
                      return MILLRACE_AS(cudaHostGetFlags, flags, host);)
MILLRACE_CONTEXT_CALL(cuMemHostRegister, (void* address, std::size_t bytes, unsigned flags),
                      return MILLRACE_AS(cudaHostRegister, address, bytes, flags);)
MILLRACE_CONTEXT_CALL(cuMemHostRegister_v2, (void* address, std::size_t bytes, unsigned flags),
                      return MILLRACE_AS(cudaHostRegister, address, bytes, flags);)
MILLRACE_CONTEXT_CALL(cuMemHostUnregister, (void* address),
                      return MILLRACE_AS(cudaHostUnregister, address);)
MILLRACE_CONTEXT_CALL(cuMemAllocManaged, (CUdeviceptr * made, std::size_t bytes, unsigned flags),
                      return give_address(made, [&](void** out) {
                        return MILLRACE_AS(cudaMallocManaged, out, bytes, flags);
                      });)
MILLRACE_DRIVER_CALL(cuPointerGetAttribute,
                     (void* out, CUpointer_attribute which, CUdeviceptr address),
                     return pointer_attribute(out, which, address);)
MILLRACE_DRIVER_CALL(cuPointerGetAttributes,
                     (unsigned count, CUpointer_attribute* which, void** out, CUdeviceptr address),
                     return pointer_attributes_of(count, which, out, address);)
MILLRACE_DRIVER_CALL(cuPointerSetAttribute,
                     (const void* value, CUpointer_attribute which, CUdeviceptr),
                     return value != nullptr && which == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
                                ? cudaSuccess
                                : cudaErrorInvalidValue;)
