#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

// Advice, queries and prefetches for managed memory. Each function takes the engine's lock.

/** @brief The location for a device number of functions before CUDA 12.2. -1 is the host. */
[[nodiscard]] inline cudaMemLocation location_of_device(int device) noexcept {
  return device == cudaCpuDeviceId ? cudaMemLocation{cudaMemLocationTypeHost, 0}
                                   : cudaMemLocation{cudaMemLocationTypeDevice, device};
}

cudaError_t advise(const void* address, std::size_t bytes, cudaMemoryAdvise advice,
                   cudaMemLocation location);
cudaError_t prefetch(CUstream_st* stream, const void* address, std::size_t bytes,
                     cudaMemLocation location, unsigned flags = 0);

/** @brief Ranges and their locations: `locations[i]` applies from the range `firsts[i]` on. */
struct PrefetchBatch {
  void* const* addresses;
  const std::size_t* bytes;
  std::size_t count;
  const cudaMemLocation* locations;
  const std::size_t* firsts;
  std::size_t location_count;
};
cudaError_t prefetch_batch(CUstream_st* stream, const PrefetchBatch& batch,
                           unsigned long long flags);
cudaError_t discard_batch(CUstream_st* stream, void* const* addresses, const std::size_t* bytes,
                          std::size_t count, unsigned long long flags);

}  // namespace millrace::virtual_cuda
