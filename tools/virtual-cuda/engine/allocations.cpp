#include "engine/allocations.hpp"

#include "engine/runtime.hpp"

namespace millrace::virtual_cuda {
namespace {

std::optional<Memory::Range> block_of(const CUmemPoolHandle_st& pool, std::uintptr_t address) {
  const auto block = pool.in_use(address);
  if (block == pool.live.end()) return std::nullopt;
  return Memory::Range{block->first, block->second.bytes};
}

std::optional<Memory::Range> managed_at(const void* address) {
  std::uintptr_t start = 0;
  const Memory::HostRange* const range = runtime().memory.host_range(address, &start);
  if (range == nullptr || range->kind != Memory::Kind::managed) return std::nullopt;
  if (range->pool != nullptr)
    return block_of(*range->pool, reinterpret_cast<std::uintptr_t>(address));
  return Memory::Range{start, range->bytes};
}

}  // namespace

std::optional<Memory::Range> allocation_of(const void* address) {
  const Memory& memory = runtime().memory;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  if (!memory.on_device(address)) return managed_at(address);
  if (memory.in_range(address)) return runtime().ranges.mapping(value);
  for (const cudaMemPool_t pool : runtime().gpus[memory.gpu_of(address)]->pools)
    if (const std::optional<Memory::Range> block = block_of(*pool, value)) return block;
  return memory.piece(address);
}

}  // namespace millrace::virtual_cuda
