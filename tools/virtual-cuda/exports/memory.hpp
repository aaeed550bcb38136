#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

// These are called under the engine's lock.

/** @brief CUDA's answer for any address. */
[[nodiscard]] cudaPointerAttributes pointer_attributes(const void* address);

[[nodiscard]] inline bool is_pool(cudaMemPool_t pool) noexcept {
  return pool != nullptr && pool->magic == CUmemPoolHandle_st::kMagic;
}

/** @brief The pool that handed out memory that starts at `address`; null if none did. */
[[nodiscard]] cudaMemPool_t pool_of_block(const void* address);
/** @brief The pool that `address` lies in a block of; null if there is none. */
[[nodiscard]] cudaMemPool_t pool_around(const void* address);
/** @brief Whether `address` lies in memory that a pool holds and has not handed out. */
[[nodiscard]] bool free_in_pool(const void* address);
/** @brief Frees a block of its pool, in the order of `stream`. */
void free_to_pool(Lock& lock, CUmemPoolHandle_st& pool, const void* address, CUstream_st& stream);
/** @brief Frees memory that a graph allocated and did not free, in the order of `stream`. */
cudaError_t free_of_graph(Lock& lock, void* address, CUstream_st& stream);

/** @brief Its default pool, or the one that a program has set. Takes the lock. */
enum class WhichPool { usual, current };
cudaError_t get_pool(cudaMemPool_t* pool, const cudaMemLocation* location,
                     cudaMemAllocationType type, WhichPool which);
cudaError_t set_pool(const cudaMemLocation* location, cudaMemAllocationType type,
                     cudaMemPool_t pool);

}  // namespace millrace::virtual_cuda
