#pragma once

#include <optional>

#include "memory/memory.hpp"

namespace millrace::virtual_cuda {

/**
 * @brief The memory of CUDA's that holds `address`, as far as kernels read it at a GPU's bandwidth:
 *        a block of a pool, memory of cudaMalloc (in units of 512 bytes), a mapping, managed
 *        memory. Called under the engine's lock.
 */
[[nodiscard]] std::optional<Memory::Range> allocation_of(const void* address);

}  // namespace millrace::virtual_cuda
