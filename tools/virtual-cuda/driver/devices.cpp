#include <algorithm>
#include <cstring>

#include "abi/functions.h"
#include "driver/entry.hpp"

using namespace millrace::virtual_cuda;

namespace {

const Gpu& gpu_at(CUdevice device) { return *runtime().gpus[static_cast<std::size_t>(device)]; }

/** Calls `use` with the properties of a GPU, if the GPU exists. */
template <typename Use>
cudaError_t with_properties(CUdevice device, Use use) {
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  return use(gpu_at(device).properties());
}

cudaError_t name(char* out, int length, CUdevice device) {
  if (out == nullptr || length <= 0) return cudaErrorInvalidValue;
  return with_properties(device, [&](const cudaDeviceProp& all) {
    std::strncpy(out, all.name, static_cast<std::size_t>(length) - 1);
    out[length - 1] = '\0';
    return cudaSuccess;
  });
}

cudaError_t uuid(CUuuid* out, CUdevice device) {
  if (out == nullptr) return cudaErrorInvalidValue;
  return with_properties(device, [&](const cudaDeviceProp& all) {
    std::memcpy(out->bytes, all.uuid.bytes, sizeof out->bytes);
    return cudaSuccess;
  });
}

cudaError_t capability(int* major, int* minor, CUdevice device) {
  if (major == nullptr || minor == nullptr) return cudaErrorInvalidValue;
  return with_properties(device, [&](const cudaDeviceProp& all) {
    *major = all.major;
    *minor = all.minor;
    return cudaSuccess;
  });
}

cudaError_t properties(CUdevprop* out, CUdevice device) {
  if (out == nullptr) return cudaErrorInvalidValue;
  return with_properties(device, [&](const cudaDeviceProp& all) {
    *out = {};
    out->maxThreadsPerBlock = all.maxThreadsPerBlock;
    std::copy_n(all.maxThreadsDim, 3, out->maxThreadsDim);
    std::copy_n(all.maxGridSize, 3, out->maxGridSize);
    out->sharedMemPerBlock = static_cast<int>(all.sharedMemPerBlock);
    out->totalConstantMemory = static_cast<int>(all.totalConstMem);
    out->SIMDWidth = all.warpSize;
    out->memPitch = static_cast<int>(all.memPitch);
    out->regsPerBlock = all.regsPerBlock;
    out->textureAlign = static_cast<int>(all.textureAlignment);
    return gpu_at(device).attribute(cudaDevAttrClockRate, out->clockRate);
  });
}

// The runtime has no attributes for virtual memory management.
cudaError_t attribute(int* value, int attribute, CUdevice device) {
  constexpr int kVirtualMemory = 102;
  constexpr int kFileDescriptors = 103;  // file descriptors as handles of memory
  if (value == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  if (attribute == kVirtualMemory || attribute == kFileDescriptors) {
    *value = 1;
    return cudaSuccess;
  }
  return gpu_at(device).attribute(static_cast<cudaDeviceAttr>(attribute), *value);
}

}  // namespace

MILLRACE_DRIVER_CALL(cuDeviceGet, (CUdevice * device, int ordinal),
                     if (device == nullptr) return cudaErrorInvalidValue;
                     if (!is_gpu(ordinal)) return cudaErrorInvalidDevice; *device = ordinal;
                     return cudaSuccess;)
MILLRACE_DRIVER_CALL(cuDeviceGetCount, (int* count), return MILLRACE_AS(cudaGetDeviceCount, count);)
MILLRACE_DRIVER_CALL(cuDeviceGetName, (char* out, int length, CUdevice device),
                     return name(out, length, device);)
MILLRACE_DRIVER_CALL(cuDeviceGetUuid, (CUuuid * out, CUdevice device), return uuid(out, device);)
MILLRACE_DRIVER_CALL(cuDeviceGetUuid_v2, (CUuuid * out, CUdevice device), return uuid(out, device);)
MILLRACE_DRIVER_CALL(cuDeviceTotalMem_v2, (std::size_t * bytes, CUdevice device),
                     if (bytes == nullptr) return cudaErrorInvalidValue;
                     return with_properties(device, [&](const cudaDeviceProp& all) {
                       *bytes = all.totalGlobalMem;
                       return cudaSuccess;
                     });)
MILLRACE_DRIVER_CALL(cuDeviceGetAttribute, (int* value, int which, CUdevice device),
                     return attribute(value, which, device);)
MILLRACE_DRIVER_CALL(cuDeviceGetProperties, (CUdevprop * out, CUdevice device),
                     return properties(out, device);)
MILLRACE_DRIVER_CALL(cuDeviceComputeCapability, (int* major, int* minor, CUdevice device),
                     return capability(major, minor, device);)
MILLRACE_DRIVER_CALL(cuDeviceGetByPCIBusId, (CUdevice * device, const char* text),
                     return MILLRACE_AS(cudaDeviceGetByPCIBusId, device, text);)
MILLRACE_DRIVER_CALL(cuDeviceGetPCIBusId, (char* text, int length, CUdevice device),
                     return MILLRACE_AS(cudaDeviceGetPCIBusId, text, length, device);)
MILLRACE_DRIVER_CALL(cuDeviceCanAccessPeer, (int* possible, CUdevice device, CUdevice peer),
                     return MILLRACE_AS(cudaDeviceCanAccessPeer, possible, device, peer);)
MILLRACE_DRIVER_CALL(cuDeviceGetP2PAttribute,
                     (int* value, cudaDeviceP2PAttr which, CUdevice device, CUdevice peer),
                     return MILLRACE_AS(cudaDeviceGetP2PAttribute, value, which, device, peer);)
MILLRACE_DRIVER_CALL(cuDeviceGetMemPool, (CUmemoryPool * pool, CUdevice device),
                     return MILLRACE_AS(cudaDeviceGetMemPool, pool, device);)
MILLRACE_DRIVER_CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool * pool, CUdevice device),
                     return MILLRACE_AS(cudaDeviceGetDefaultMemPool, pool, device);)
MILLRACE_DRIVER_CALL(cuDeviceSetMemPool, (CUdevice device, CUmemoryPool pool),
                     return MILLRACE_AS(cudaDeviceSetMemPool, device, pool);)
MILLRACE_DRIVER_CALL(cuDeviceGetGraphMemAttribute,
                     (CUdevice device, cudaGraphMemAttributeType which, void* value),
                     return MILLRACE_AS(cudaDeviceGetGraphMemAttribute, device, which, value);)
MILLRACE_DRIVER_CALL(cuDeviceSetGraphMemAttribute,
                     (CUdevice device, cudaGraphMemAttributeType which, void* value),
                     return MILLRACE_AS(cudaDeviceSetGraphMemAttribute, device, which, value);)
MILLRACE_DRIVER_CALL(cuDeviceGraphMemTrim, (CUdevice device),
                     return MILLRACE_AS(cudaDeviceGraphMemTrim, device);)
MILLRACE_DRIVER_CALL(cuDeviceGetExecAffinitySupport, (int* supported, int, CUdevice device),
                     if (supported == nullptr) return cudaErrorInvalidValue;
                     if (!is_gpu(device)) return cudaErrorInvalidDevice; *supported = 0;
                     return cudaSuccess;)
