#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

/// @file
/// The quantities that PyTorch reports of an allocator, without PyTorch's types. docs/python.md
/// defines each of them for Millrace.

struct CUstream_st;

namespace millrace {

/** @brief A pool of PyTorch's (c10::MempoolId_t). {0, 0} means the memory outside of all pools. */
using TorchPoolId = std::pair<unsigned long long, unsigned long long>;

/** @brief A quantity of torch.cuda.memory_stats(). */
struct TorchStat {
  std::int64_t current = 0;
  std::int64_t peak = 0;       ///< since the last reset of peaks
  std::int64_t allocated = 0;  ///< sum of all increases since the last reset of sums
  std::int64_t freed = 0;      ///< sum of all decreases

  void add(std::int64_t amount) noexcept;
};

/** @brief A quantity of all memory, and of the parts for small and for large requests. */
struct TorchStats {
  TorchStat all, small, large;

  void add(bool is_small, std::int64_t amount) noexcept;
};

/** @brief All that torch.cuda.memory_stats() reports. Counts, and bytes. */
struct TorchStatistics {
  TorchStats allocation;      ///< live allocations
  TorchStats segment;         ///< contiguous pieces of the GPU's memory
  TorchStats active;          ///< as `allocation`: a freed block waits for nothing
  TorchStats inactive_split;  ///< free pieces of segments that have live allocations
  TorchStats allocated_bytes;
  TorchStats reserved_bytes;
  TorchStats active_bytes;
  TorchStats inactive_split_bytes;
  TorchStats requested_bytes;
  TorchStat oversize_allocations;  ///< larger than `max_split_size`
  TorchStat oversize_segments;
  std::int64_t alloc_retries = 0;     ///< times that the GPU or the limit refused memory
  std::int64_t out_of_memory = 0;     ///< requests that failed
  std::int64_t sync_all_streams = 0;  ///< times that the release of all free memory was tried
  std::int64_t device_allocs = 0;     ///< segments acquired, and pages mapped
  std::int64_t device_frees = 0;
  std::int64_t max_split_size = -1;  ///< -1: no limit
  /// Reserved bytes of each pool that existed since the last reset of sums.
  std::map<TorchPoolId, TorchStats> reserved_by_pool;
};

/** @brief An entry of the history. Entries have the order of the allocator's decisions. */
struct TorchTraceEntry {
  /** @brief The actions of PyTorch's trace entries. */
  enum class Action {
    alloc,
    free_requested,
    free_completed,
    segment_alloc,
    segment_free,
    segment_map,
    segment_unmap,
    out_of_memory,
    annotate,  ///< of a live allocation, after the fact
  };
  Action action = Action::alloc;
  std::uintptr_t address = 0;  ///< out_of_memory: the bytes that the GPU had free
  std::size_t bytes = 0;       ///< alloc and free: requested bytes
  CUstream_st* stream = nullptr;
  TorchPoolId pool;
  std::int64_t time_us = 0;       ///< since 1970
  std::shared_ptr<void> context;  ///< the framework's data for the call, such as its stack
};

/** @brief A live allocation, or a free piece between two. */
struct TorchBlock {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;  ///< 0 if it is free
  bool live = false;
  std::shared_ptr<void> context;
};

/** @brief A contiguous piece of the GPU's memory. Its blocks tile it, in order of address. */
struct TorchSegment {
  std::uintptr_t address = 0;
  std::size_t bytes = 0;
  std::size_t allocated = 0, requested = 0;
  CUstream_st* stream = nullptr;  ///< stream of the request that made it
  bool small = false;
  bool expandable = false;  ///< made of mapped pages
  TorchPoolId pool;
  std::vector<TorchBlock> blocks;
  std::shared_ptr<void> context;
};

/** @brief Whether entries are kept, and how many of the newest ones. */
struct TorchHistory {
  bool enabled = false;
  std::size_t most_entries = 1;
  unsigned skipped = 0;  ///< bit 1 << action: entries that are not kept
};

}  // namespace millrace
