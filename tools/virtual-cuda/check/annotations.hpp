#pragma once

#include <cstddef>

#include "millrace/virtual_cuda.h"

/** @brief Members of the table of virtual_cuda.h. They do nothing without a checker. */
namespace millrace::virtual_cuda::annotations {

void host_access(const void* address, std::size_t bytes, int writes);
void allocated(const void* address, std::size_t bytes, CUstream_st* stream);
void freed(const void* address);
void release(const void* object);
void acquire(const void* object);
/** @brief An allocator cuts this memory into regions. From now on, only regions may be used. */
void heap(const void* address, std::size_t bytes);
/** @brief Frees all regions of a heap. */
void heap_reset(const void* address);
/** @brief As `allocated`, for an allocator that does not name the stream. */
void region(const void* address, std::size_t bytes);
/** @brief Whether the program is checked; the first call makes the runtime. */
[[nodiscard]] bool wanted();
std::size_t races(void (*visit)(const MillraceRace*, void*), void* data);

}  // namespace millrace::virtual_cuda::annotations
