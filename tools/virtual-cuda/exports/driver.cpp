#include "exports/driver.hpp"

#include <cstring>

#include "exports/entry.hpp"

// Functions of the driver that programs of the runtime ask for: contexts, and virtual memory
// management. The codes of CUresult that occur here are those of cudaError_t. Parameters are those
// of CUDA's documentation; CUdeviceptr and CUmemGenericAllocationHandle are 64-bit integers.

extern "C" const char* cudaGetErrorName(cudaError_t error);
extern "C" const char* cudaGetErrorString(cudaError_t error);

namespace millrace::virtual_cuda {
namespace {

using DevicePointer = std::uintptr_t;
using Handle = std::uint64_t;

/** What cuMemCreate is told: the fields that are used, of CUmemAllocationProp. */
struct AllocationProperties {
  int type;
  int handle_types;
  cudaMemLocation location;
};

constexpr int kPinned = 1;
constexpr int kAttributeOfVirtualMemory = 102;

template <typename Body>
cudaError_t driver_call(Body body) noexcept {
  Thread* const thread = this_thread != nullptr ? this_thread : attach_thread();
  if (thread == nullptr) return process_refusal.load(std::memory_order_relaxed);
  if (const cudaError_t refused = refusal_of(*thread); refused != cudaSuccess) return refused;
  try {
    return body(*thread);
  } catch (const std::bad_alloc&) {
    return cudaErrorMemoryAllocation;
  }
}

cudaError_t error_name(cudaError_t error, const char** name) {
  *name = cudaGetErrorName(error);
  return cudaSuccess;
}
cudaError_t error_string(cudaError_t error, const char** text) {
  *text = cudaGetErrorString(error);
  return cudaSuccess;
}
cudaError_t init(unsigned flags) {
  return driver_call([&](Thread&) { return flags == 0 ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t device_get(int* device, int ordinal) {
  return driver_call([&](Thread&) {
    if (!is_gpu(ordinal)) return cudaErrorInvalidDevice;
    *device = ordinal;
    return cudaSuccess;
  });
}
cudaError_t device_attribute(int* value, int attribute, int device) {
  return driver_call([&](Thread&) {
    if (!is_gpu(device)) return cudaErrorInvalidDevice;
    if (attribute == kAttributeOfVirtualMemory) {
      *value = 1;
      return cudaSuccess;
    }
    return runtime().gpus[static_cast<std::size_t>(device)]->attribute(
        static_cast<cudaDeviceAttr>(attribute), *value);
  });
}

// A GPU's primary context is the Gpu itself.

cudaError_t retain_context(Gpu** context, int device) {
  return driver_call([&](Thread&) {
    if (!is_gpu(device)) return cudaErrorInvalidDevice;
    *context = runtime().gpus[static_cast<std::size_t>(device)].get();
    return cudaSuccess;
  });
}
cudaError_t current_context(Gpu** context) {
  return driver_call([&](Thread& thread) {
    *context = thread.bound ? &runtime().current_gpu() : nullptr;
    return cudaSuccess;
  });
}
cudaError_t set_context(Gpu* context) {
  return driver_call([&](Thread& thread) {
    thread.bound = context != nullptr;
    thread.device = context == nullptr ? 0 : static_cast<int>(context->ordinal);
    return cudaSuccess;
  });
}

// Virtual memory management

cudaError_t granularity(std::size_t* bytes, const AllocationProperties* properties, int) {
  return driver_call([&](Thread&) {
    if (bytes == nullptr || properties == nullptr) return cudaErrorInvalidValue;
    *bytes = Ranges::kGranularity;
    return cudaSuccess;
  });
}
cudaError_t reserve(DevicePointer* address, std::size_t bytes, std::size_t alignment, DevicePointer,
                    unsigned long long flags) {
  return driver_call([&](Thread&) {
    if (address == nullptr || flags != 0) return cudaErrorInvalidValue;
    Lock lock = lock_engine();
    spend(lock, Call::reserve_range);
    return runtime().ranges.reserve(*address, bytes, alignment);
  });
}
cudaError_t release_range(DevicePointer address, std::size_t bytes) {
  return driver_call([&](Thread&) {
    Lock lock = lock_engine();
    spend(lock, Call::release_range);
    return runtime().ranges.release(address, bytes);
  });
}
cudaError_t create(Handle* handle, std::size_t bytes, const AllocationProperties* properties,
                   unsigned long long flags) {
  return driver_call([&](Thread&) {
    if (handle == nullptr || properties == nullptr || flags != 0 || properties->type != kPinned)
      return cudaErrorInvalidValue;
    if (properties->location.type != cudaMemLocationTypeDevice || properties->handle_types != 0)
      return cudaErrorNotSupported;
    if (!is_gpu(properties->location.id)) return cudaErrorInvalidDevice;
    const Lock lock = lock_engine();
    return runtime().ranges.create(*handle, bytes, static_cast<unsigned>(properties->location.id));
  });
}
cudaError_t release_handle(Handle handle) {
  return driver_call([&](Thread&) {
    const Lock lock = lock_engine();
    return runtime().ranges.drop(handle);
  });
}
cudaError_t map(DevicePointer address, std::size_t bytes, std::size_t offset, Handle handle,
                unsigned long long flags) {
  return driver_call([&](Thread&) {
    if (offset != 0 || flags != 0) return cudaErrorInvalidValue;
    Lock lock = lock_engine();
    spend(lock, Call::map);
    return runtime().ranges.map(address, bytes, handle);
  });
}
// CUDA leaves it to the program that no work uses the memory. Here such work would end the process,
// so that it runs first.
cudaError_t unmap(DevicePointer address, std::size_t bytes) {
  return driver_call([&](Thread&) {
    Lock lock = lock_engine();
    spend(lock, Call::unmap);
    runtime().engine.wait_for_all(lock);
    return runtime().ranges.unmap(address, bytes);
  });
}
cudaError_t set_access(DevicePointer address, std::size_t bytes, const cudaMemAccessDesc* access,
                       std::size_t count) {
  return driver_call([&](Thread&) {
    for (std::size_t i = 0; i < count; ++i)
      if (!is_gpu(access[i].location.id)) return cudaErrorInvalidDevice;
    const Lock lock = lock_engine();
    return runtime().ranges.check_access(address, bytes);
  });
}

struct Row {
  const char* name;
  void* function;
};

template <typename Function>
Row row(const char* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

}  // namespace

void* find_driver_function(const char* name) noexcept {
  static const Row rows[] = {
      row("cuGetErrorName", error_name),
      row("cuGetErrorString", error_string),
      row("cuInit", init),
      row("cuDeviceGet", device_get),
      row("cuDeviceGetAttribute", device_attribute),
      row("cuDevicePrimaryCtxRetain", retain_context),
      row("cuCtxGetCurrent", current_context),
      row("cuCtxSetCurrent", set_context),
      row("cuMemGetAllocationGranularity", granularity),
      row("cuMemAddressReserve", reserve),
      row("cuMemAddressFree", release_range),
      row("cuMemCreate", create),
      row("cuMemRelease", release_handle),
      row("cuMemMap", map),
      row("cuMemUnmap", unmap),
      row("cuMemSetAccess", set_access),
  };
  for (const Row& known : rows)
    if (std::strcmp(known.name, name) == 0) return known.function;
  return nullptr;
}

}  // namespace millrace::virtual_cuda
