// Handles that share memory, as far as one process can use them: a pool as a file, a block of such
// a pool, and the handles of cudaIpc, which cannot be opened in the process that made them. Handles
// of other processes are not supported.

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "exports/entry.hpp"
#include "exports/memory.hpp"
#include "exports/refuse.hpp"

using namespace millrace::virtual_cuda;

namespace {

constexpr const char* kOthers = "sharing with other processes";

/** The contents of a handle, which has 64 bytes. */
struct Contents {
  static constexpr std::uint64_t kMagic = 0x6c6c696d20736971;

  std::uint64_t magic = kMagic;
  std::uint64_t process = static_cast<std::uint64_t>(getpid());
  std::uint64_t pool = 0;
  std::uint64_t address = 0;
};
static_assert(sizeof(Contents) <= sizeof(cudaIpcMemHandle_t));
static_assert(sizeof(Contents) <= sizeof(cudaMemPoolPtrExportData));

template <typename Handle>
void write(Handle* handle, const Contents& contents) {
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &contents, sizeof contents);
}

template <typename Handle>
Contents read(const Handle* handle) {
  Contents contents;
  std::memcpy(static_cast<void*>(&contents), handle, sizeof contents);
  return contents;
}

/** The exported pool with this id; null if it was destroyed. */
cudaMemPool_t pool_of_id(std::uint64_t id) {
  const auto find = [&](const std::vector<cudaMemPool_t>& pools) {
    const auto found = std::find_if(pools.begin(), pools.end(), [&](const cudaMemPool_t pool) {
      return pool->id == id && is_pool(pool);
    });
    return found == pools.end() ? nullptr : *found;
  };
  for (const auto& gpu : runtime().gpus)
    if (const cudaMemPool_t pool = find(gpu->pools)) return pool;
  return find(runtime().host_pools);
}

cudaError_t export_pool(void* out, cudaMemPool_t pool, cudaMemAllocationHandleType type,
                        unsigned long long flags) {
  if (out == nullptr || !is_pool(pool) || !pool->exportable || flags != 0 ||
      type != cudaMemHandleTypePosixFileDescriptor)
    return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  static_cast<void>(runtime().pool_files.take_closed());
  const int file = runtime().pool_files.make(pool->id);
  if (file < 0) return cudaErrorOperatingSystem;
  *static_cast<int*>(out) = file;
  return cudaSuccess;
}

cudaError_t import_pool(cudaMemPool_t* made, void* given, cudaMemAllocationHandleType type,
                        unsigned long long flags) {
  if (made == nullptr || flags != 0 || type != cudaMemHandleTypePosixFileDescriptor)
    return cudaErrorInvalidValue;
  const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(given));
  const Lock lock = lock_engine();
  const std::optional<std::uint64_t> id = runtime().pool_files.find(file);
  if (!id)
    return may_be_of_another_process(file) ? refuse("cudaMemPoolImportFromShareableHandle", kOthers)
                                           : cudaErrorInvalidValue;
  const cudaMemPool_t origin = pool_of_id(*id);
  if (origin == nullptr) return cudaErrorInvalidValue;
  *made = make_pool(origin->place, false, 0);
  (*made)->origin = *id;
  return cudaSuccess;
}

cudaError_t export_pointer(cudaMemPoolPtrExportData* data, void* address) {
  if (data == nullptr || address == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const cudaMemPool_t pool = pool_of_block(address);
  if (pool == nullptr || !pool->exportable) return cudaErrorInvalidValue;
  Contents contents;
  contents.pool = pool->id;
  contents.address = reinterpret_cast<std::uintptr_t>(address);
  write(data, contents);
  return cudaSuccess;
}

// The memory has one address in the process. The program frees it once for each import, and once
// for the allocation.
cudaError_t import_pointer(void** address, cudaMemPool_t pool,
                           const cudaMemPoolPtrExportData* data) {
  if (address == nullptr || data == nullptr || !is_pool(pool) || pool->origin == 0)
    return cudaErrorInvalidValue;
  const Contents contents = read(data);
  const Lock lock = lock_engine();
  const cudaMemPool_t origin = pool_of_id(pool->origin);
  if (contents.magic != Contents::kMagic || contents.pool != pool->origin || origin == nullptr)
    return cudaErrorInvalidValue;
  const auto block = origin->live.find(contents.address);
  if (block == origin->live.end()) return cudaErrorInvalidValue;
  ++block->second.imports;
  *address = reinterpret_cast<void*>(contents.address);
  return cudaSuccess;
}

// Handles exist only for memory of cudaMalloc, not for pools, graphs and mappings.
cudaError_t get_ipc(cudaIpcMemHandle_t* handle, void* address) {
  if (handle == nullptr || address == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const std::optional<Memory::Range> piece = runtime().memory.piece(address);
  if (!piece || pool_around(address) != nullptr || free_in_pool(address) ||
      runtime().graph_memory.holds(reinterpret_cast<void*>(piece->begin)))
    return cudaErrorInvalidValue;
  Contents contents;
  contents.address = piece->begin;
  write(handle, contents);
  return cudaSuccess;
}

// In the process that made the handle, CUDA returns an error, because its context has the memory.
cudaError_t open_ipc(void** address, const cudaIpcMemHandle_t& handle, unsigned flags) {
  if (address == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  const Contents contents = read(&handle);
  if (contents.magic != Contents::kMagic) return cudaErrorInvalidValue;
  return contents.process == Contents{}.process ? cudaErrorDeviceUninitialized
                                                : refuse("cudaIpcOpenMemHandle", kOthers);
}

}  // namespace

MILLRACE_CALL(cudaMemPoolExportToShareableHandle,
              (void* out, cudaMemPool_t pool, cudaMemAllocationHandleType type, unsigned flags),
              return export_pool(out, pool, type, flags);)
MILLRACE_CALL(cudaMemPoolImportFromShareableHandle,
              (cudaMemPool_t * pool, void* file, cudaMemAllocationHandleType type, unsigned flags),
              return import_pool(pool, file, type, flags);)
MILLRACE_CALL(cudaMemPoolExportPointer, (cudaMemPoolPtrExportData * data, void* address),
              return export_pointer(data, address);)
MILLRACE_CALL(cudaMemPoolImportPointer,
              (void** address, cudaMemPool_t pool, cudaMemPoolPtrExportData* data),
              return import_pointer(address, pool, data);)
MILLRACE_CALL(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void* address),
              return get_ipc(handle, address);)
MILLRACE_CALL(cudaIpcOpenMemHandle, (void** address, cudaIpcMemHandle_t handle, unsigned flags),
              return open_ipc(address, handle, flags);)
MILLRACE_CALL(cudaIpcCloseMemHandle, (void*), return cudaErrorInvalidValue;)
