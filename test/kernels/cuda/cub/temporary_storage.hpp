#pragma once

#include <cstddef>
#include <cstring>

#include "cuda_runtime_api.h"

namespace millrace::test::kernels {

/**
 * @brief CUB's protocol. A call without storage only returns the needed size. Otherwise the call
 * may touch only that many bytes, and it refuses a smaller storage.
 */
template <typename Work>
cudaError_t with_storage(void* storage, std::size_t& bytes, std::size_t needed, Work&& work) {
  if (storage == nullptr) {
    bytes = needed;
    return cudaSuccess;
  }
  if (bytes < needed) return cudaErrorInvalidValue;
  std::memset(storage, 0xCD, needed);
  work();
  return cudaSuccess;
}

/** @brief Scratch for `count` items in tiles: as much as CUB takes, or more. */
inline std::size_t storage_for(std::size_t count) { return 1023 + count / 896 * 16; }

}  // namespace millrace::test::kernels
