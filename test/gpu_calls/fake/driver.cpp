#include <sys/mman.h>

#include <cstring>
#include <string_view>

#include "test/gpu_calls/fake/state.hpp"

// CUDA's driver. The runtime returns its entry points.

using namespace millrace::test::fake;

namespace {

int contexts_of_devices[kDevices];

CUcontext context_of(int device) {
  return device < 0 ? nullptr : reinterpret_cast<CUcontext>(&contexts_of_devices[device]);
}
CUresult driver(const char* name, const void* object = nullptr, long long value = 0) {
  return static_cast<CUresult>(called(name, object, value));
}
void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

CUresult error_name(CUresult, const char** name) {
  *name = "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult init(unsigned) { return CUDA_SUCCESS; }
CUresult get_device(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult get_attribute(int* value, CUdevice_attribute, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult retain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  const std::lock_guard lock{state().mutex};
  state().contexts.insert(device);
  return CUDA_SUCCESS;
}
CUresult get_current(CUcontext* context) {
  *context = context_of(device_of_context());
  return CUDA_SUCCESS;
}
CUresult set_current(CUcontext context) {
  int device = kDevices - 1;
  while (device >= 0 && context_of(device) != context) --device;
  set_context(device);
  return CUDA_SUCCESS;
}
CUresult granularity(std::size_t* bytes, const CUmemAllocationProp*,
                     CUmemAllocationGranularity_flags) {
  *bytes = std::size_t{2} << 20;
  return CUDA_SUCCESS;
}
CUresult reserve(CUdeviceptr* range, std::size_t bytes, std::size_t, CUdeviceptr,
                 unsigned long long) {
  void* const memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  *range = reinterpret_cast<CUdeviceptr>(memory);
  return memory == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
CUresult free_range(CUdeviceptr range, std::size_t bytes) {
  munmap(pointer(range), bytes);
  return CUDA_SUCCESS;
}
CUresult create(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp*,
                unsigned long long) {
  *handle = 1;
  return driver("cuMemCreate", nullptr, static_cast<long long>(bytes));
}
CUresult release(CUmemGenericAllocationHandle) { return CUDA_SUCCESS; }
CUresult retain_page(CUmemGenericAllocationHandle* handle, void* address) {
  *handle = 1;
  return driver("cuMemRetainAllocationHandle", address);
}
CUresult map(CUdeviceptr address, std::size_t bytes, std::size_t, CUmemGenericAllocationHandle,
             unsigned long long) {
  return driver("cuMemMap", pointer(address), static_cast<long long>(bytes));
}
CUresult unmap(CUdeviceptr address, std::size_t bytes) {
  mprotect(pointer(address), bytes, PROT_NONE);
  return driver("cuMemUnmap", pointer(address), static_cast<long long>(bytes));
}
// Records a call for each page and device of `access`, because tests ask which device may use a
// page.
CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                    std::size_t count) {
  mprotect(pointer(address), bytes, PROT_READ | PROT_WRITE);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t at = 0; at < bytes; at += std::size_t{2} << 20) {
      const CUresult result =
          driver("cuMemSetAccess", pointer(address + at), access[i].location.id);
      if (result != CUDA_SUCCESS) return result;
    }
  }
  return CUDA_SUCCESS;
}

struct Entry {
  std::string_view name;
  void* function;
};

const Entry kEntries[] = {
    {"cuGetErrorName", reinterpret_cast<void*>(error_name)},
    {"cuGetErrorString", reinterpret_cast<void*>(error_name)},
    {"cuInit", reinterpret_cast<void*>(init)},
    {"cuDeviceGet", reinterpret_cast<void*>(get_device)},
    {"cuDeviceGetAttribute", reinterpret_cast<void*>(get_attribute)},
    {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(retain)},
    {"cuCtxGetCurrent", reinterpret_cast<void*>(get_current)},
    {"cuCtxSetCurrent", reinterpret_cast<void*>(set_current)},
    {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(granularity)},
    {"cuMemAddressReserve", reinterpret_cast<void*>(reserve)},
    {"cuMemAddressFree", reinterpret_cast<void*>(free_range)},
    {"cuMemCreate", reinterpret_cast<void*>(create)},
    {"cuMemRelease", reinterpret_cast<void*>(release)},
    {"cuMemRetainAllocationHandle", reinterpret_cast<void*>(retain_page)},
    {"cuMemMap", reinterpret_cast<void*>(map)},
    {"cuMemUnmap", reinterpret_cast<void*>(unmap)},
    {"cuMemSetAccess", reinterpret_cast<void*>(set_access)},
};

cudaError_t find(const char* name, void** entry, cudaDriverEntryPointQueryResult* found) {
  for (const Entry& each : kEntries) {
    if (each.name != name) continue;
    *entry = each.function;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
  }
  *found = cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace

extern "C" {
#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** entry, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  return find(name, entry, found);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char* name, void** entry, unsigned long long,
                                    cudaDriverEntryPointQueryResult* found) {
  return find(name, entry, found);
}
#endif
}
