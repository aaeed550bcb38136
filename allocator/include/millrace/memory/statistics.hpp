#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/** @brief A quantity, and its highest value since the scope was opened. */
struct Gauge {
  std::size_t current = 0;
  std::size_t peak = 0;

  void add(std::size_t amount) noexcept {
    current += amount;
    if (current > peak) peak = current;
  }
  void subtract(std::size_t amount) noexcept { current -= amount; }
};

/**
 * @brief Memory of an allocator, in bytes; reserved = active + cached.
 *
 * Current values are exact when they are read. Peaks are exact with these exceptions:
 * - The peaks of `active` and `cached` may be off by up to 4 MiB for each stream. Freed blocks with
 *   recorded uses count as active only after their stream's list of recently freed blocks was
 *   emptied.
 * - After two threads have called the allocator at the same time, all peaks may be off by up to 32
 *   MiB and one block for each stream, because each stream then counts separately
 *   (docs/allocator.md).
 */
struct MemoryGauges {
  Gauge requested;  ///< requested bytes of live allocations
  Gauge allocated;  ///< bytes of live blocks, after rounding
  Gauge active;     ///< allocated, or freed and not yet usable by the stream that keeps the block
  Gauge reserved;   ///< bytes of all segments
  Gauge cached;     ///< reserved - active
};

/** @brief How requests were served, and at which cost, since the allocator was made. */
struct MemoryCounters {
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t served_own = 0;      ///< from a free block of the same stream
  std::uint64_t served_ordered = 0;  ///< from a block of another stream, without a driver call
  std::uint64_t served_waited = 0;   ///< after a wait was inserted
  std::uint64_t served_grown = 0;    ///< from a new segment or from growing a range
  std::uint64_t waits_inserted = 0;
  /// Bytes of pages moved between ranges instead of growing.
  std::uint64_t bytes_moved = 0;
  /// Number of segments; growing or shrinking a range counts as one.
  std::uint64_t segments_acquired = 0, segments_released = 0;
  std::uint64_t retries = 0;        ///< reclaims after the device or the limit refused memory
  std::uint64_t out_of_memory = 0;  ///< requests that failed
};

/** @brief The memory of one stream or of one tag. */
struct ShareStatistics {
  std::string name;
  StreamId stream;  ///< invalid for a tag
  Gauge allocated;
  std::size_t cached = 0;  ///< bytes of free blocks kept for the stream; 0 for a tag
};

/** @brief The memory of CUDA graph pools (graph_pool.hpp), in bytes. */
struct GraphPoolStatistics {
  std::size_t pools = 0;      ///< number of pools
  std::size_t capturing = 0;  ///< number of pools with a capture in progress
  std::size_t reserved = 0;   ///< counted as `allocated` in the allocator's own gauges
  std::size_t allocated = 0;  ///< part of `reserved` that is in live blocks
};

/** @brief Everything that an allocator counts. */
struct MemoryStatistics {
  MemoryGauges bytes;
  MemoryCounters counts;
  std::size_t segments = 0;
  std::size_t live_blocks = 0;
  std::size_t free_blocks = 0;
  std::vector<ShareStatistics> streams;
  std::vector<ShareStatistics> tags;
  GraphPoolStatistics graph_pools;

  /** @brief Returns peak active bytes / peak reserved bytes; 1 if nothing was ever reserved. */
  [[nodiscard]] double utilization() const noexcept;
};

/** @brief The free memory of an allocator, and how much of it one stream could use now. Bytes. */
struct UsableBytes {
  std::size_t total = 0;     ///< free bytes that the one rule allows
  std::size_t largest = 0;   ///< largest piece of `total`
  std::size_t stranded = 0;  ///< cached bytes that the one rule does not allow yet

  /** @brief Returns the external fragmentation: 1 - largest / total; 0 if `total` is 0. */
  [[nodiscard]] double fragmentation() const noexcept;
};

}  // namespace millrace
