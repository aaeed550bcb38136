#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/ordering/point.hpp"

namespace millrace {

/** @brief A quantity and its highest value since the scope began. */
struct Gauge {
  std::size_t current = 0;
  std::size_t peak = 0;

  void add(std::size_t amount) noexcept {
    current += amount;
    if (current > peak) peak = current;
  }
  void subtract(std::size_t amount) noexcept { current -= amount; }
  void reset_peak() noexcept { peak = current; }
};

/** @brief Bytes; reserved = active + cached. Peaks: exact unless calls overlap (allocator.md). */
struct MemoryGauges {
  Gauge requested;  ///< live, as asked for
  Gauge allocated;  ///< live, rounded
  Gauge active;     ///< allocated, or freed and not yet usable by the stream that keeps the block
  Gauge reserved;   ///< segments held
  Gauge cached;     ///< reserved - active
};

/** @brief How requests were served, and what that took. Counts since the allocator was made. */
struct MemoryCounters {
  std::uint64_t allocations = 0, frees = 0;
  std::uint64_t served_own = 0;      ///< from the stream's own free blocks
  std::uint64_t served_ordered = 0;  ///< from another stream's, ordered or complete: no call
  std::uint64_t served_waited = 0;   ///< after a wait was inserted
  std::uint64_t served_grown = 0;    ///< from a new segment, or with what a range grew by
  std::uint64_t waits_inserted = 0;
  std::uint64_t bytes_moved =
      0;  ///< of ranges: mapped where they were missing, in place of growing
  /** Growing and shrinking of a range count as well. */
  std::uint64_t segments_acquired = 0, segments_released = 0;
  std::uint64_t retries = 0;        ///< reclaims after the device or the limit said no
  std::uint64_t out_of_memory = 0;  ///< requests that failed
};

/** @brief One stream's or one tag's share. */
struct ShareStatistics {
  std::string name;
  StreamId stream;  ///< invalid for a tag
  Gauge allocated;
  std::size_t cached = 0;  ///< free blocks kept for it (streams only)
};

/** @brief What the pools of graphs hold (graph_pool.hpp). Bytes. */
struct GraphPoolStatistics {
  std::size_t pools = 0;
  std::size_t capturing = 0;  ///< of them, now
  std::size_t reserved = 0;   ///< held: counts as allocated in the allocator's own gauges
  std::size_t allocated = 0;  ///< of that, in live blocks
};

struct MemoryStatistics {
  MemoryGauges bytes;
  MemoryCounters counts;
  std::size_t segments = 0;
  std::size_t live_blocks = 0;
  std::size_t free_blocks = 0;
  std::vector<ShareStatistics> streams;
  std::vector<ShareStatistics> tags;
  GraphPoolStatistics graph_pools;

  /** @brief peak active / peak reserved; 1 when nothing was reserved. */
  [[nodiscard]] double utilisation() const noexcept;
};

/** @brief What one stream could have now, without waiting. Bytes. */
struct UsableBytes {
  std::size_t total = 0;     ///< free bytes that the one rule gives it
  std::size_t largest = 0;   ///< in one piece
  std::size_t stranded = 0;  ///< cached bytes that it could not have

  /** @brief External fragmentation: 1 - largest / total; 0 when there is nothing. */
  [[nodiscard]] double fragmentation() const noexcept;
};

}  // namespace millrace
