#include "exports/managed.hpp"

#include <vector>

#include "abi/functions.h"
#include "driver/entry.hpp"

using namespace millrace::virtual_cuda;

namespace {

/** The addresses as pointers, for a call of the runtime. */
std::vector<void*> pointers(const CUdeviceptr* addresses, std::size_t count) {
  std::vector<void*> found;
  if (addresses == nullptr) return found;
  for (std::size_t i = 0; i < count; ++i) found.push_back(pointer(addresses[i]));
  return found;
}

}  // namespace

MILLRACE_CONTEXT_TWINS(cuMemPrefetchAsync, ptsz,
                       (CUdeviceptr address, std::size_t bytes, CUdevice device, CUstream stream),
                       return MILLRACE_AS(cudaMemPrefetchAsync, pointer(address), bytes,
                                          location_of_device(device), 0,
                                          stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(cuMemPrefetchAsync_v2, ptsz,
                       (CUdeviceptr address, std::size_t bytes, cudaMemLocation location,
                        unsigned flags, CUstream stream),
                       return MILLRACE_AS(cudaMemPrefetchAsync, pointer(address), bytes, location,
                                          flags, stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(
    cuMemPrefetchBatchAsync, ptsz,
    (CUdeviceptr * addresses, std::size_t* bytes, std::size_t count, cudaMemLocation* locations,
     std::size_t* firsts, std::size_t location_count, unsigned long long flags, CUstream stream),
    return MILLRACE_AS(cudaMemPrefetchBatchAsync, pointers(addresses, count).data(), bytes, count,
                       locations, firsts, location_count, flags, stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(cuMemDiscardAndPrefetchBatchAsync, ptsz,
                       (CUdeviceptr * addresses, std::size_t* bytes, std::size_t count,
                        cudaMemLocation* locations, std::size_t* firsts, std::size_t location_count,
                        unsigned long long flags, CUstream stream),
                       return MILLRACE_AS(cudaMemDiscardAndPrefetchBatchAsync,
                                          pointers(addresses, count).data(), bytes, count,
                                          locations, firsts, location_count, flags,
                                          stream_of(stream, meaning));)
MILLRACE_CONTEXT_TWINS(cuMemDiscardBatchAsync, ptsz,
                       (CUdeviceptr * addresses, std::size_t* bytes, std::size_t count,
                        unsigned long long flags, CUstream stream),
                       return MILLRACE_AS(cudaMemDiscardBatchAsync,
                                          pointers(addresses, count).data(), bytes, count, flags,
                                          stream_of(stream, meaning));)
MILLRACE_DRIVER_CALL(
    cuMemAdvise, (CUdeviceptr address, std::size_t bytes, cudaMemoryAdvise advice, CUdevice device),
    return MILLRACE_AS(cudaMemAdvise, pointer(address), bytes, advice, location_of_device(device));)
MILLRACE_DRIVER_CALL(cuMemAdvise_v2,
                     (CUdeviceptr address, std::size_t bytes, cudaMemoryAdvise advice,
                      cudaMemLocation location),
                     return MILLRACE_AS(cudaMemAdvise, pointer(address), bytes, advice, location);)
MILLRACE_DRIVER_CALL(cuMemRangeGetAttribute,
                     (void* out, std::size_t room, cudaMemRangeAttribute which, CUdeviceptr address,
                      std::size_t bytes),
                     return MILLRACE_AS(cudaMemRangeGetAttribute, out, room, which,
                                        pointer(address), bytes);)
MILLRACE_DRIVER_CALL(cuMemRangeGetAttributes,
                     (void** out, std::size_t* rooms, cudaMemRangeAttribute* which,
                      std::size_t count, CUdeviceptr address, std::size_t bytes),
                     return MILLRACE_AS(cudaMemRangeGetAttributes, out, rooms, which, count,
                                        pointer(address), bytes);)
