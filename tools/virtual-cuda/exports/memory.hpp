#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

// Call these functions under the engine's lock. get_pool and set_pool take it themselves.

/** @brief The answer of cudaPointerGetAttributes, for any address. */
[[nodiscard]] cudaPointerAttributes pointer_attributes(const void* address);

[[nodiscard]] inline bool is_pool(cudaMemPool_t pool) noexcept {
  return pool != nullptr && pool->magic == CUmemPoolHandle_st::kMagic;
}

/** @brief The pool whose live block starts at `address`; null if there is no such pool. */
[[nodiscard]] cudaMemPool_t pool_of_block(const void* address);
/** @brief The pool whose live block contains `address`; null if there is no such pool. */
[[nodiscard]] cudaMemPool_t pool_around(const void* address);
/** @brief Whether `address` is in a free block of a pool. */
[[nodiscard]] bool free_in_pool(const void* address);
/** @brief Frees a block of its pool, in the order of `stream`. */
void free_to_pool(Lock& lock, CUmemPoolHandle_st& pool, const void* address, CUstream_st& stream);
/** @brief Frees memory that a graph allocated and did not free, in the order of `stream`. */
cudaError_t free_of_graph(Lock& lock, void* address, CUstream_st& stream);

/** @brief The default pool of a place, or the pool that the program has set. */
enum class WhichPool { usual, current };
cudaError_t get_pool(cudaMemPool_t* pool, const cudaMemLocation* location,
                     cudaMemAllocationType type, WhichPool which);
cudaError_t set_pool(const cudaMemLocation* location, cudaMemAllocationType type,
                     cudaMemPool_t pool);

}  // namespace millrace::virtual_cuda
