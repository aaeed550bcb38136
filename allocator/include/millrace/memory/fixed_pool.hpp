#pragma once

#include <cstddef>
#include <span>

#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/** @brief The block size of a FixedPool, and how the pool grows. */
struct FixedPoolOptions {
  std::size_t block_bytes = 0;  ///< rounded up to a multiple of 512
  /// Blocks for which a segment has room. A segment has whole pages of the source (2 MiB on a GPU),
  /// so that many small blocks share one. With `most_bytes`, it has fewer where segments of one
  /// size use that maximum better.
  std::size_t blocks_at_once = 64;
  std::size_t most_bytes = 0;  ///< maximum bytes to reserve; 0: all memory of the device
};

/**
 * @brief A pool of stream-ordered blocks of one size. Thread-safe.
 *
 * It is a CachingAllocator with a policy for one size. The one rule decides which stream may reuse
 * a block, and whether a request waits for one or grows the pool, is decided as with the preset
 * `millrace`: streams grow it while they have less than their share (Policy::spare_bursts).
 * Since the segments contain only blocks of this size, they do not fragment: every piece of a
 * segment serves every request. What is left at the end of a segment is less than one block. Where
 * the limit, or the device, has no room for a segment, a block gets the fewest whole pages that it
 * fits into.
 *
 *   FixedPool rows{device, source, {.block_bytes = 64 << 10, .most_bytes = 1 << 30}};
 */
class FixedPool {
 public:
  /**
   * @param device  the device of the streams; outlives the pool
   * @param source  provides the segments; outlives the pool
   * @throws std::invalid_argument if `block_bytes` or `blocks_at_once` is 0
   */
  FixedPool(OrderedDevice& device, SegmentSource& source, FixedPoolOptions options);

  /** @brief Allocates one block; see `Allocator::allocate`. @throws out_of_memory at `most_bytes`
   */
  [[nodiscard]] void* allocate(StreamRef stream, Tag tag = {});
  /** @brief Allocates one block for each element of `addresses`; all of them or none. */
  void allocate(std::span<void*> addresses, StreamRef stream, Tag tag = {});

  /** @brief The allocator, for frees, recorded uses, statistics, `reserve` and `trim`. */
  [[nodiscard]] CachingAllocator& memory() noexcept { return memory_; }

  [[nodiscard]] std::size_t block_bytes() const noexcept { return memory_.policy().granule; }

 private:
  CachingAllocator memory_;
};

}  // namespace millrace
