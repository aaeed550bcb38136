#pragma once

#include "exports/entry.hpp"

namespace millrace::virtual_cuda {

// All of these are called under the engine's lock.

/** @brief CUDA's answer for any address. */
[[nodiscard]] cudaPointerAttributes pointer_attributes(const void* address);

/** @brief Whether `address` starts memory that a pool handed out. */
[[nodiscard]] bool in_pool(const Gpu& gpu, const void* address);
/** @brief Whether `address` lies in memory that a pool holds and has not handed out. */
[[nodiscard]] bool free_in_pool(const Gpu& gpu, const void* address);
/** @brief Frees memory that is `in_pool`, in the order of `stream`. */
cudaError_t free_to_pool(Lock& lock, Gpu& gpu, const void* address, CUstream_st& stream);

}  // namespace millrace::virtual_cuda
