#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/operation.hpp"
#include "memory/memory.hpp"

namespace millrace::virtual_cuda {
class Engine;
}  // namespace millrace::virtual_cuda

/**
 * What a cudaMemPool_t points to: the stream-ordered pool of one GPU.
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
  };
  struct Grant {
    void* address = nullptr;          ///< null if neither pool nor GPU can serve it
    std::vector<OperationRef> after;  ///< frees that the allocation has to wait for
  };

  std::uint32_t magic = 0;
  bool is_default = false;
  unsigned device = 0;
  std::size_t granularity = 0;
  std::size_t max_bytes = 0;  ///< 0: no limit
  Attributes attributes;
  std::map<unsigned, cudaMemAccessFlags> access;  ///< of other GPUs
  std::map<std::uintptr_t, std::size_t> segments;
  std::map<std::uintptr_t, Free> free_blocks;
  std::set<std::pair<std::size_t, std::uintptr_t>> by_size;  ///< of `free_blocks`
  std::map<std::uintptr_t, Live> live;

  [[nodiscard]] Grant allocate(millrace::virtual_cuda::Memory& memory,
                               millrace::virtual_cuda::Engine& engine, std::size_t bytes,
                               CUstream_st& stream);
  /** The block at `address`, which is live, is free once `done` is. */
  void release(std::uintptr_t address, CUstream_st& stream, const OperationRef& done);
  /** Gives whole free segments back while more than `keep` bytes are reserved. */
  void trim(millrace::virtual_cuda::Memory& memory, std::size_t keep);

 private:
  [[nodiscard]] Grant carve(std::map<std::uintptr_t, Free>::iterator block, std::size_t bytes,
                            CUstream_st& stream);
  [[nodiscard]] bool grow(millrace::virtual_cuda::Memory& memory, std::size_t bytes);
  std::map<std::uintptr_t, Free>::iterator add(std::uintptr_t address, Free block);
  void remove(std::map<std::uintptr_t, Free>::iterator block);
  void merge(std::map<std::uintptr_t, Free>::iterator block);
};
