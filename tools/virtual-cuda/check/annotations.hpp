#pragma once

#include <cstddef>

#include "millrace/virtual_cuda.h"

/** @brief Members of the table of virtual_cuda.h. They do nothing where nobody checks. */
namespace millrace::virtual_cuda::annotations {

void host_access(const void* address, std::size_t bytes, int writes);
void allocated(const void* address, std::size_t bytes, CUstream_st* stream);
void freed(const void* address);
void release(const void* object);
void acquire(const void* object);
std::size_t races(void (*visit)(const MillraceRace*, void*), void* data);

}  // namespace millrace::virtual_cuda::annotations
