#include "engine/reachable.hpp"

#include <algorithm>
#include <iterator>

#include "engine/runtime.hpp"
#include "memory/pool.hpp"

namespace millrace::virtual_cuda {
namespace {

// Pinned memory of a pool needs access for the GPU. All GPUs reach other host memory.
bool host_memory_reaches(const void* address, unsigned gpu) {
  const Memory::HostRange* const range = runtime().memory.host_range(address);
  if (range == nullptr) return false;
  if (range->pool == nullptr || range->kind == Memory::Kind::managed) return true;
  const auto access = range->pool->access.find(gpu);
  return access != range->pool->access.end() && access->second != cudaMemAccessFlagsProtNone;
}

bool in_pool(const CUmemPoolHandle_st& pool, std::uintptr_t address) {
  const auto next = pool.segments.upper_bound(address);
  if (next == pool.segments.begin()) return false;
  const auto& [begin, bytes] = *std::prev(next);
  return address - begin < bytes;
}

// Memory of `owner`, another GPU than `gpu`.
bool peer_reaches(std::uintptr_t address, const Gpu& owner, unsigned gpu) {
  const auto pool = std::find_if(owner.pools.begin(), owner.pools.end(),
                                 [&](cudaMemPool_t each) { return in_pool(*each, address); });
  if (pool == owner.pools.end()) return runtime().gpus[gpu]->peers.contains(owner.ordinal);
  const auto access = (*pool)->access.find(gpu);
  return access != (*pool)->access.end() && access->second != cudaMemAccessFlagsProtNone;
}

}  // namespace

bool reachable(const void* address, unsigned gpu) {
  const Memory& memory = runtime().memory;
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  if (!memory.on_device(address)) return host_memory_reaches(address, gpu);
  if (!memory.in_gpu(address)) {
    const auto access = runtime().ranges.access(value, gpu);
    return access && *access != cudaMemAccessFlagsProtNone;
  }
  if (!memory.piece(address)) return false;
  const unsigned owner = memory.gpu_of(address);
  return owner == gpu || peer_reaches(value, *runtime().gpus[owner], gpu);
}

}  // namespace millrace::virtual_cuda
