#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "abi/cuda_runtime_api.h"
#include "engine/operation.hpp"
#include "memory/memory.hpp"

namespace millrace::virtual_cuda {
class Engine;

/** @brief The memory of a pool: a GPU's memory, pinned host memory, or managed memory. */
struct PoolPlace {
  cudaMemAllocationType type = cudaMemAllocationTypePinned;
  cudaMemLocation location{cudaMemLocationTypeDevice, 0};

  [[nodiscard]] bool on_gpu() const noexcept {
    return type == cudaMemAllocationTypePinned && location.type == cudaMemLocationTypeDevice;
  }
  friend bool operator==(const PoolPlace& a, const PoolPlace& b) noexcept {
    return a.type == b.type && a.location.type == b.location.type && a.location.id == b.location.id;
  }
};
}  // namespace millrace::virtual_cuda

/**
 * The object that a cudaMemPool_t points to: a stream-ordered pool of a GPU's memory, of managed
 * memory or of pinned memory. The latter two are host memory here.
 *
 * A free block keeps its free operation. Another stream may use the block when the free is done
 * (ReuseAllowOpportunistic), when events order that stream after the free
 * (ReuseFollowEventDependencies), or, if the pool cannot grow, after a wait that the pool adds
 * (ReuseAllowInternalDependencies).
 */
struct CUmemPoolHandle_st {
  using OperationRef = millrace::virtual_cuda::OperationRef;

  static constexpr std::uint32_t kMagic = 0x504f4f4c;
  static constexpr std::size_t kHuge = ~std::size_t{0};

  struct Attributes {
    int follow_event_dependencies = 1;
    int allow_opportunistic = 1;
    int allow_internal_dependencies = 1;
    std::uint64_t release_threshold = 0;
    std::uint64_t reserved = 0;
    std::uint64_t reserved_high = 0;
    std::uint64_t used = 0;
    std::uint64_t used_high = 0;
  };
  struct Free {
    std::size_t bytes = 0;
    std::uint64_t stream_id = 0;  ///< 0: no stream or several streams
    std::vector<OperationRef> after;
  };
  struct Live {
    std::size_t bytes = 0;
    CUstream_st* stream = nullptr;  ///< for the report: the stream of the allocation
    unsigned imports = 0;           ///< imported pointers that are not freed yet
  };
  struct Grant {
    void* address = nullptr;          ///< null if neither pool nor GPU can serve it
    std::vector<OperationRef> after;  ///< frees that the allocation must wait for
  };

  std::uint32_t magic = 0;
  bool is_default = false;
  unsigned device = 0;  ///< managed memory: the preferred GPU; pinned memory: 0
  millrace::virtual_cuda::PoolPlace place;
  std::size_t granularity = 0;
  std::size_t max_bytes = 0;  ///< 0: no limit
  std::uint64_t id = 0;       ///< unique in the process
  bool exportable = false;    ///< can be exported as a file
  bool decompressed = false;  ///< made for a hardware decompression engine
  std::uint64_t origin = 0;   ///< id of the pool that this one was imported from; or 0
  Attributes attributes;
  std::map<unsigned, cudaMemAccessFlags> access;  ///< access of other GPUs
  std::map<std::uintptr_t, std::size_t> segments;
  std::map<std::uintptr_t, Free> free_blocks;
  std::set<std::pair<std::size_t, std::uintptr_t>> by_size;  ///< index of `free_blocks`
  std::map<std::uintptr_t, Live> live;

  [[nodiscard]] millrace::virtual_cuda::Memory::Kind kind() const noexcept;
  /** The live block that holds `address`; `live.end()` if no block does. */
  [[nodiscard]] std::map<std::uintptr_t, Live>::const_iterator in_use(std::uintptr_t address) const;
  /** Whether `address` is in a free block of the pool. */
  [[nodiscard]] bool holds_free(std::uintptr_t address) const;
  [[nodiscard]] Grant allocate(millrace::virtual_cuda::Memory& memory,
                               millrace::virtual_cuda::Engine& engine, std::size_t bytes,
                               CUstream_st& stream);
  /** Frees the live block at `address`, effective when `done` is done. */
  void release(std::uintptr_t address, CUstream_st& stream, const OperationRef& done);
  /** Releases whole free segments, as long as at least `keep` bytes stay reserved. */
  void trim(millrace::virtual_cuda::Memory& memory, std::size_t keep);

 private:
  [[nodiscard]] Grant carve(std::map<std::uintptr_t, Free>::iterator block, std::size_t bytes,
                            CUstream_st& stream);
  [[nodiscard]] bool grow(millrace::virtual_cuda::Memory& memory, std::size_t bytes);
  void* take_segment(millrace::virtual_cuda::Memory& memory, std::size_t bytes);
  std::map<std::uintptr_t, Free>::iterator add(std::uintptr_t address, Free block);
  void remove(std::map<std::uintptr_t, Free>::iterator block);
  void merge(std::map<std::uintptr_t, Free>::iterator block);
};
