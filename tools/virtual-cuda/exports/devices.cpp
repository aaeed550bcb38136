#include <algorithm>
#include <cstdio>
#include <cstring>

#include "exports/entry.hpp"

using namespace millrace;
using namespace millrace::virtual_cuda;

namespace {

constexpr std::size_t kLimits = 7;

Gpu& gpu_at(int device) { return *runtime().gpus[static_cast<std::size_t>(device)]; }

template <typename Value, typename Read>
cudaError_t read(int device, Value* value, Read read) {
  if (value == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  *value = read(gpu_at(device));
  return cudaSuccess;
}

cudaError_t synchronize_all() {
  Gpu& gpu = runtime().current_gpu();
  if (quick() && !gpu.excess.load(std::memory_order_relaxed)) return cudaSuccess;
  Lock lock = lock_engine();
  spend(lock, Call::synchronize_device);
  bool captured = false;
  for (CUstream_st* const stream : gpu.streams) {
    if (stream->capture == nullptr) continue;
    stream->capture->invalid = true;
    captured = true;
  }
  if (captured) return cudaErrorStreamCaptureUnsupported;
  synchronize(lock, gpu);
  return cudaSuccess;
}

cudaError_t pci_bus_id(char* text, int length, int device) {
  constexpr int kShortest = 13;  // 0000:01:00.0 and the end
  if (text == nullptr || length < kShortest) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0",
                (static_cast<unsigned>(device) + 1) & 0xff);
  return cudaSuccess;
}

cudaError_t by_pci_bus_id(int* device, const char* text) {
  if (device == nullptr || text == nullptr) return cudaErrorInvalidValue;
  for (int i = 0; is_gpu(i); ++i) {
    char own[32];
    pci_bus_id(own, sizeof own, i);
    if (std::strcmp(own, text) != 0 && std::strcmp(own + 5, text) != 0) continue;
    *device = i;
    return cudaSuccess;
  }
  return cudaErrorInvalidDevice;
}

cudaError_t can_access_peer(int* possible, int device, int peer) {
  if (possible == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device) || !is_gpu(peer)) return cudaErrorInvalidDevice;
  *possible = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t enable_peer(int peer, unsigned flags) {
  if (flags != 0) return cudaErrorInvalidValue;
  Gpu& gpu = runtime().current_gpu();
  if (!is_gpu(peer) || static_cast<unsigned>(peer) == gpu.ordinal) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  return gpu.peers.insert(static_cast<unsigned>(peer)).second ? cudaSuccess
                                                              : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t disable_peer(int peer) {
  if (!is_gpu(peer)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  return runtime().current_gpu().peers.erase(static_cast<unsigned>(peer)) != 0
             ? cudaSuccess
             : cudaErrorPeerAccessNotEnabled;
}

cudaError_t peer_attribute(int* value, cudaDeviceP2PAttr attribute, int device, int peer) {
  if (value == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device) || !is_gpu(peer) || device == peer) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevP2PAttrPerformanceRank:
    case cudaDevP2PAttrCudaArrayAccessSupported:
      *value = 0;
      return cudaSuccess;
    case cudaDevP2PAttrAccessSupported:
    case cudaDevP2PAttrNativeAtomicSupported:
      *value = 1;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t choose(int* device, const void* wanted) {
  if (device == nullptr || wanted == nullptr) return cudaErrorInvalidValue;
  *device = 0;  // all GPUs are equal
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaGetDeviceCount, (int* count), if (count == nullptr) return cudaErrorInvalidValue;
              *count = static_cast<int>(runtime().gpus.size()); return cudaSuccess;)
MILLRACE_CALL(cudaGetDevice, (int* device), if (device == nullptr) return cudaErrorInvalidValue;
              *device = thread.device; return cudaSuccess;)
MILLRACE_CALL(cudaSetDevice, (int device), if (!is_gpu(device)) return cudaErrorInvalidDevice;
              thread.device = device; thread.context = nullptr;
              static_cast<void>(runtime().current_gpu()); return cudaSuccess;)
MILLRACE_CALL(cudaInitDevice, (int device, unsigned, unsigned),
              return is_gpu(device) ? cudaSuccess : cudaErrorInvalidDevice;)
MILLRACE_CALL(cudaSetValidDevices, (int* devices, int count),
              if (devices == nullptr && count != 0) return cudaErrorInvalidValue;
              for (int i = 0; i < count;
                   ++i) if (!is_gpu(devices[i])) return cudaErrorInvalidDevice;
              return cudaSuccess;)
MILLRACE_CALL(cudaChooseDevice, (int* device, const void* wanted), return choose(device, wanted);)
MILLRACE_CALL(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int device),
              if (value == nullptr) return cudaErrorInvalidValue;
              if (!is_gpu(device)) return cudaErrorInvalidDevice;
              return gpu_at(device).attribute(attribute, *value);)
MILLRACE_CALL(cudaDeviceGetPCIBusId, (char* text, int length, int device),
              return pci_bus_id(text, length, device);)
MILLRACE_CALL(cudaDeviceGetByPCIBusId, (int* device, const char* text),
              return by_pci_bus_id(device, text);)
MILLRACE_CALL(cudaDeviceSynchronize, (), return synchronize_all();)
MILLRACE_CALL(cudaDeviceReset, (), Lock lock = lock_engine();
              synchronize(lock, runtime().current_gpu()); return cudaSuccess;)
MILLRACE_CALL(cudaSetDeviceFlags, (unsigned flags),
              if ((flags & ~static_cast<unsigned>(cudaDeviceMask)) !=
                  0) return cudaErrorInvalidValue;
              runtime().current_gpu().flags = flags; return cudaSuccess;)
MILLRACE_CALL(cudaGetDeviceFlags, (unsigned* flags),
              return read(thread.device, flags,
                          [](const Gpu& gpu) { return gpu.flags | cudaDeviceMapHost; });)
MILLRACE_CALL(cudaDeviceGetLimit, (std::size_t * value, cudaLimit limit),
              if (static_cast<std::size_t>(limit) >= kLimits) return cudaErrorUnsupportedLimit;
              return read(thread.device, value, [&](const Gpu& gpu) { return gpu.limits[limit]; });)
MILLRACE_CALL(cudaDeviceSetLimit, (cudaLimit limit, std::size_t value),
              if (static_cast<std::size_t>(limit) >= kLimits) return cudaErrorUnsupportedLimit;
              runtime().current_gpu().limits[limit] = value; return cudaSuccess;)
MILLRACE_CALL(cudaDeviceCanAccessPeer, (int* possible, int device, int peer),
              return can_access_peer(possible, device, peer);)
MILLRACE_CALL(cudaDeviceEnablePeerAccess, (int peer, unsigned flags),
              return enable_peer(peer, flags);)
MILLRACE_CALL(cudaDeviceDisablePeerAccess, (int peer), return disable_peer(peer);)
MILLRACE_CALL(cudaDeviceGetP2PAttribute,
              (int* value, cudaDeviceP2PAttr attribute, int device, int peer),
              return peer_attribute(value, attribute, device, peer);)
MILLRACE_CALL(cudaDeviceGetCacheConfig, (cudaFuncCache * config),
              return read(thread.device, config,
                          [](const Gpu&) { return cudaFuncCachePreferNone; });)
MILLRACE_CALL(cudaDeviceGetSharedMemConfig, (cudaSharedMemConfig * config),
              return read(thread.device, config,
                          [](const Gpu&) { return cudaSharedMemBankSizeDefault; });)
