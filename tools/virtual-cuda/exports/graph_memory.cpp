#include <cstring>

#include "exports/entry.hpp"

using namespace millrace::virtual_cuda;

namespace {

// Used and reserved memory of graphs are equal here.
cudaError_t get(int device, cudaGraphMemAttributeType which, void* value) {
  if (value == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  const Lock lock = lock_engine();
  const GraphMemory::Amount amount = runtime().graph_memory.amount(static_cast<unsigned>(device));
  switch (which) {
    case cudaGraphMemAttrUsedMemCurrent:
    case cudaGraphMemAttrReservedMemCurrent:
      std::memcpy(value, &amount.current, sizeof amount.current);
      return cudaSuccess;
    case cudaGraphMemAttrUsedMemHigh:
    case cudaGraphMemAttrReservedMemHigh:
      std::memcpy(value, &amount.high, sizeof amount.high);
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t set(int device, cudaGraphMemAttributeType which, const void* value) {
  if (value == nullptr) return cudaErrorInvalidValue;
  if (!is_gpu(device)) return cudaErrorInvalidDevice;
  if (which != cudaGraphMemAttrUsedMemHigh && which != cudaGraphMemAttrReservedMemHigh)
    return cudaErrorInvalidValue;
  std::uint64_t reset = 0;
  std::memcpy(&reset, value, sizeof reset);
  if (reset != 0) return cudaErrorInvalidValue;
  const Lock lock = lock_engine();
  runtime().graph_memory.reset_high(static_cast<unsigned>(device));
  return cudaSuccess;
}

}  // namespace

MILLRACE_CALL(cudaDeviceGetGraphMemAttribute,
              (int device, cudaGraphMemAttributeType which, void* value),
              return get(device, which, value);)
MILLRACE_CALL(cudaDeviceSetGraphMemAttribute,
              (int device, cudaGraphMemAttributeType which, void* value),
              return set(device, which, value);)
MILLRACE_CALL(cudaDeviceGraphMemTrim, (int device),
              if (!is_gpu(device)) return cudaErrorInvalidDevice;
              const Lock lock = lock_engine();
              runtime().graph_memory.trim(static_cast<unsigned>(device)); return cudaSuccess;)
