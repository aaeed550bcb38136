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

/** @brief What memory a pool has: of a GPU, pinned memory of the host, or managed memory. */
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
 * What a cudaMemPool_t points to: a stream-ordered pool of a GPU's memory, or of managed or pinned
 * memory, which is host memory here.
 *
 * A freed block remembers its free. Another stream may have it when the free is done
 * (ReuseAllowOpportunistic), when events order that stream after the free
 * (ReuseFollowEventDependencies), or, if the GPU has no more memory, after a wait that the pool
 * adds (ReuseAllowInternalDependencies).
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
    std::uint64_t stream_id = 0;  ///< 0: of several streams
    std::vector<OperationRef> after;
  };
  struct Live {
    std::size_t bytes = 0;
    CUstream_st* stream = nullptr;  ///< for the report: the stream that it was allocated on
    unsigned imports = 0;           ///< pointers that were imported and are not freed yet
  };
  struct Grant {
    void* address = nullptr;          ///< null if neither pool nor GPU can serve it
    std::vector<OperationRef> after;  ///< frees that the allocation has to wait for
  };

  std::uint32_t magic = 0;
  bool is_default = false;
  unsigned device = 0;  ///< of managed memory: the preferred one; of pinned memory: 0
  millrace::virtual_cuda::PoolPlace place;
  std::size_t granularity = 0;
  std::size_t max_bytes = 0;  ///< 0: no limit
  std::uint64_t id = 0;       ///< one in the process
  bool exportable = false;    ///< as a file
  bool decompressed = false;  ///< made for a hardware decompression engine
  std::uint64_t origin = 0;   ///< the id of the pool that it was imported from; 0: none
  Attributes attributes;
  std::map<unsigned, cudaMemAccessFlags> access;  ///< of other GPUs
  std::map<std::uintptr_t, std::size_t> segments;
  std::map<std::uintptr_t, Free> free_blocks;
  std::set<std::pair<std::size_t, std::uintptr_t>> by_size;  ///< of `free_blocks`
  std::map<std::uintptr_t, Live> live;

  [[nodiscard]] millrace::virtual_cuda::Memory::Kind kind() const noexcept;
  /** The block in use that holds `address`; `live.end()` if none does. */
  [[nodiscard]] std::map<std::uintptr_t, Live>::const_iterator in_use(std::uintptr_t address) const;
  /** Whether `address` lies in memory that the pool holds and has not handed out. */
  [[nodiscard]] bool holds_free(std::uintptr_t address) const;
  [[nodiscard]] Grant allocate(millrace::virtual_cuda::Memory& memory,
                               millrace::virtual_cuda::Engine& engine, std::size_t bytes,
                               CUstream_st& stream);
  /** The block at `address`, which is live, is free once `done` is. */
  void release(std::uintptr_t address, CUstream_st& stream, const OperationRef& done);
  /** Gives whole free segments back as long as at least `keep` bytes stay reserved. */
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
