#pragma once

#include <cstddef>
#include <span>

#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/** @brief What a FixedPool gives out, and how it grows. */
struct FixedPoolOptions {
  std::size_t block_bytes = 0;      ///< rounded up to 512
  std::size_t blocks_at_once = 64;  ///< a segment has room for so many
  std::size_t most_bytes = 0;       ///< most to reserve; 0: what the device has
};

/**
 * @brief Stream-ordered blocks of one size, in segments that hold nothing else.
 *
 * A CachingAllocator with a policy for one size: what is freed on one stream goes to another by the
 * same one rule, and a request waits for a block before the pool grows, as with the `millrace`
 * preset. No other size can cut a segment up, so that the pool never reserves more than its blocks
 * need. Any thread may call.
 *
 *   FixedPool rows{device, source, {.block_bytes = 64 << 10, .most_bytes = 1 << 30}};
 */
class FixedPool {
 public:
  /** @throws std::invalid_argument if blocks have no bytes, or segments no blocks */
  FixedPool(OrderedDevice& device, SegmentSource& source, FixedPoolOptions options);

  /** @brief As `Allocator::allocate`. @throws out_of_memory at `most_bytes` */
  [[nodiscard]] void* allocate(StreamRef stream, Tag tag = {});
  /** @brief As many blocks as `addresses` has room for, or none. */
  void allocate(std::span<void*> addresses, StreamRef stream, Tag tag = {});

  /** @brief For all else: frees, recorded uses, statistics, `reserve`, `trim`. */
  [[nodiscard]] CachingAllocator& memory() noexcept { return memory_; }

  [[nodiscard]] std::size_t block_bytes() const noexcept { return memory_.policy().granule; }

 private:
  CachingAllocator memory_;
};

}  // namespace millrace
