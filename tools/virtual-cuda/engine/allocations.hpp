#pragma once

#include <optional>

#include "memory/memory.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief The allocation that holds `address`, if kernels access it at the GPU's memory bandwidth.
 *
 * That is a block of a pool, memory of cudaMalloc (in units of 512 bytes), a mapping or managed
 * memory. Called under the engine's lock.
 */
[[nodiscard]] std::optional<Memory::Range> allocation_of(const void* address);

}  // namespace millrace::virtual_cuda
