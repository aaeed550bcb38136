// Virtual memory management.

#include "check/checker.hpp"
#include "driver/entry.hpp"
#include "exports/refuse.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

constexpr int kPinned = 1;
constexpr int kFileDescriptor = 1;

cudaError_t granularity(std::size_t* bytes, const CUmemAllocationProp* properties) {
  if (bytes == nullptr || properties == nullptr) return cudaErrorInvalidValue;
  *bytes = Ranges::kGranularity;
  return cudaSuccess;
}

cudaError_t reserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                    unsigned long long flags) {
  if (address == nullptr || flags != 0) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::reserve_range);
  std::uintptr_t found = 0;
  const cudaError_t error = runtime().ranges.reserve(found, bytes, alignment);
  if (error == cudaSuccess) *address = found;
  return error;
}

cudaError_t release(CUdeviceptr address, std::size_t bytes) {
  Lock lock = lock_engine();
  spend(lock, Call::release_range);
  return runtime().ranges.release(address, bytes);
}

cudaError_t create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                   const CUmemAllocationProp* properties, unsigned long long flags) {
  if (handle == nullptr || properties == nullptr || flags != 0 || properties->type != kPinned)
    return cudaErrorInvalidValue;
  // No GPU here is in a fabric.
  if (properties->location.type != cudaMemLocationTypeDevice ||
      (properties->requestedHandleTypes != 0 &&
       properties->requestedHandleTypes != kFileDescriptor))
    return cudaErrorNotSupported;
  if (!is_gpu(properties->location.id)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  std::uint64_t made = 0;
  const cudaError_t error =
      runtime().ranges.create(made, bytes, static_cast<unsigned>(properties->location.id),
                              properties->requestedHandleTypes == kFileDescriptor);
  if (error == cudaSuccess) *handle = made;
  return error;
}

cudaError_t map(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (offset != 0 || flags != 0) return cudaErrorInvalidValue;
  Lock lock = lock_engine();
  spend(lock, Call::map);
  const cudaError_t error = runtime().ranges.map(address, bytes, handle);
  if (Checker* const check = checker(); check != nullptr && error == cudaSuccess)
    check->mapped(pointer(address), bytes);
  return error;
}

// CUDA requires that no work uses the memory any longer. Here such work would crash the process, so
// all pending work runs first.
cudaError_t unmap(CUdeviceptr address, std::size_t bytes) {
  Lock lock = lock_engine();
  spend(lock, Call::unmap);
  runtime().engine.wait_for_all(lock);
  const cudaError_t error = runtime().ranges.unmap(address, bytes);
  if (Checker* const check = checker(); check != nullptr && error == cudaSuccess)
    check->range_freed(pointer(address), bytes);
  return error;
}

cudaError_t set_access(CUdeviceptr address, std::size_t bytes, const cudaMemAccessDesc* access,
                       std::size_t count) {
  if (access == nullptr || count == 0) return cudaErrorInvalidValue;
  for (std::size_t i = 0; i < count; ++i)
    if (!is_gpu(access[i].location.id)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  for (std::size_t i = 0; i < count; ++i) {
    const cudaError_t error = runtime().ranges.set_access(
        address, bytes, static_cast<unsigned>(access[i].location.id), access[i].flags);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

cudaError_t get_access(unsigned long long* flags, const cudaMemLocation* location,
                       CUdeviceptr address) {
  if (flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(location->id)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  const auto access = runtime().ranges.access(address, static_cast<unsigned>(location->id));
  if (!access) return cudaErrorInvalidValue;
  *flags = *access;
  return cudaSuccess;
}

cudaError_t properties_of(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  if (properties == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const std::optional<Ranges::About> known = runtime().ranges.about(handle);
  if (!known) return cudaErrorInvalidValue;
  *properties = {};
  properties->type = kPinned;
  properties->requestedHandleTypes = known->exportable ? kFileDescriptor : 0;
  properties->location = {cudaMemLocationTypeDevice, static_cast<int>(known->gpu)};
  return cudaSuccess;
}

cudaError_t export_handle(void* out, CUmemGenericAllocationHandle handle, int type,
                          unsigned long long flags) {
  if (out == nullptr || flags != 0 || type != kFileDescriptor) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  return runtime().ranges.share(*static_cast<int*>(out), handle);
}

/** @param given  the file descriptor, cast to a pointer */
cudaError_t import_handle(CUmemGenericAllocationHandle* handle, void* given, int type) {
  if (handle == nullptr || type != kFileDescriptor) return cudaErrorInvalidValue;
  const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(given));
  {
    const Lock lock = lock_engine();
    if (const std::optional<std::uint64_t> found = runtime().ranges.import(file)) {
      *handle = *found;
      return cudaSuccess;
    }
  }
  return may_be_of_another_process(file)
             ? refuse("cuMemImportFromShareableHandle", "sharing with other processes")
             : cudaErrorInvalidValue;
}

cudaError_t retain(CUmemGenericAllocationHandle* handle, const void* address) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  const std::optional<std::uint64_t> found =
      runtime().ranges.retain(reinterpret_cast<std::uintptr_t>(address));
  if (!found) return cudaErrorInvalidValue;
  *handle = *found;
  return cudaSuccess;
}

}  // namespace

MILLRACE_DRIVER_CALL(cuMemGetAllocationGranularity,
                     (std::size_t * bytes, const CUmemAllocationProp* properties, int),
                     return granularity(bytes, properties);)
MILLRACE_DRIVER_CALL(cuMemAddressReserve,
                     (CUdeviceptr * address, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                      unsigned long long flags),
                     return reserve(address, bytes, alignment, flags);)
MILLRACE_DRIVER_CALL(cuMemAddressFree, (CUdeviceptr address, std::size_t bytes),
                     return release(address, bytes);)
MILLRACE_DRIVER_CALL(cuMemCreate,
                     (CUmemGenericAllocationHandle * handle, std::size_t bytes,
                      const CUmemAllocationProp* properties, unsigned long long flags),
                     return create(handle, bytes, properties, flags);)
MILLRACE_DRIVER_CALL(cuMemExportToShareableHandle,
                     (void* out, CUmemGenericAllocationHandle handle, int type,
                      unsigned long long flags),
                     return export_handle(out, handle, type, flags);)
MILLRACE_DRIVER_CALL(cuMemImportFromShareableHandle,
                     (CUmemGenericAllocationHandle * handle, void* file, int type),
                     return import_handle(handle, file, type);)
MILLRACE_DRIVER_CALL(cuMemRelease, (CUmemGenericAllocationHandle handle),
                     const Lock lock = lock_engine();
                     return runtime().ranges.release(handle);)
MILLRACE_DRIVER_CALL(cuMemMap,
                     (CUdeviceptr address, std::size_t bytes, std::size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags),
                     return map(address, bytes, offset, handle, flags);)
MILLRACE_DRIVER_CALL(cuMemUnmap, (CUdeviceptr address, std::size_t bytes),
                     return unmap(address, bytes);)
MILLRACE_DRIVER_CALL(cuMemSetAccess,
                     (CUdeviceptr address, std::size_t bytes, const cudaMemAccessDesc* access,
                      std::size_t count),
                     return set_access(address, bytes, access, count);)
MILLRACE_DRIVER_CALL(cuMemGetAccess,
                     (unsigned long long* flags, const cudaMemLocation* location,
                      CUdeviceptr address),
                     return get_access(flags, location, address);)
MILLRACE_DRIVER_CALL(cuMemGetAllocationPropertiesFromHandle,
                     (CUmemAllocationProp * properties, CUmemGenericAllocationHandle handle),
                     return properties_of(properties, handle);)
MILLRACE_DRIVER_CALL(cuMemRetainAllocationHandle,
                     (CUmemGenericAllocationHandle * handle, void* address),
                     return retain(handle, address);)
