#pragma once

#include <cstddef>
#include <span>

#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/** @brief The block size of a FixedPool, and how the pool grows. */
struct FixedPoolOptions {
  std::size_t block_bytes = 0;  ///< rounded up to a multiple of 512
  /// Number of blocks for which a segment has room. A segment has whole pages of the source (2 MiB
  /// on a GPU), so that many small blocks share one. With `most_bytes`, a segment has fewer blocks
  /// if segments of one size use that maximum better.
  std::size_t blocks_at_once = 64;
  std::size_t most_bytes = 0;  ///< maximum bytes to reserve; 0: all memory of the device
};

/**
 * @brief A pool of stream-ordered blocks of one size. Thread-safe.
 *
 * It is a CachingAllocator with a policy for one size. The one rule decides which stream may reuse
 * a block. Whether a request waits for a block or grows the pool is decided as with the preset
 * `millrace`: streams grow the pool while they have less than their share (Policy::spare_bursts).
 *
 * Since the segments contain only blocks of this size, they do not fragment: every piece of a
 * segment serves every request. Less than one block is unused at the end of a segment. If the limit
 * or the device has no room for a segment, a block gets the fewest whole pages that it fits into.
 *
 *   FixedPool rows{device, source, {.block_bytes = 64 << 10, .most_bytes = 1 << 30}};
 */
class FixedPool {
 public:
  /**
   * @brief Makes an empty pool; the first request reserves memory.
   * @param device   the device of the streams; outlives the pool
   * @param source   provides the segments; outlives the pool
   * @param options  the block size, and how the pool grows
   * @throws std::invalid_argument if `block_bytes` or `blocks_at_once` is 0
   */
  FixedPool(OrderedDevice& device, SegmentSource& source, FixedPoolOptions options);

  /**
   * @brief Allocates one block; see `Allocator::allocate`.
   * @throws out_of_memory at `most_bytes`, or if the device has no memory
   */
  [[nodiscard]] void* allocate(StreamRef stream, Tag tag = {});
  /**
   * @brief Allocates one block for each element of `addresses`; all of them or none.
   * @param addresses  receives the blocks; untouched if the call throws
   * @param stream     the owner of the blocks
   * @param tag        label under which the bytes are counted
   * @throws out_of_memory like `allocate` of one block
   */
  void allocate(std::span<void*> addresses, StreamRef stream, Tag tag = {});

  /** @brief Returns the allocator, for frees, recorded uses, statistics, `reserve` and `trim`. */
  [[nodiscard]] CachingAllocator& memory() noexcept { return memory_; }

  /** @brief Returns the size of each block in bytes, rounded up to a multiple of 512. */
  [[nodiscard]] std::size_t block_bytes() const noexcept { return memory_.policy().granule; }

 private:
  CachingAllocator memory_;
};

}  // namespace millrace
