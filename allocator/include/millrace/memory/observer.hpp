#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/ordering/frontier.hpp"

namespace millrace {

/** @brief An allocation. Valid only during the call. */
struct AllocationEvent {
  std::uint64_t id;  ///< unique; allocations are numbered while the allocator has an observer
  void* address;
  std::size_t requested;  ///< requested bytes
  std::size_t bytes;      ///< bytes of the block
  StreamId owner;
  StreamId user;  ///< the stream that may use it from now on: the owner or the first user
  std::string_view tag;
  /// The points that `user` is ordered after, including waits that were inserted for this
  /// allocation.
  const Frontier& frontier;
  const Frontier& completed;  ///< the points that were known to be complete
};

/** @brief A free. Valid only during the call. */
struct FreeEvent {
  std::uint64_t id;
  void* address;
  std::size_t bytes;
  std::span<const Point> points;  ///< the next use of the block comes after all of them
};

/**
 * @brief Is called for each allocation and free, in order, under the allocator's lock.
 *
 * Must not call the allocator or the device. Without an observer the cost is one branch. If
 * `allocated` or `freed` throws, the caller of the allocator gets the exception, and the block is
 * free afterwards (with a DriverAllocator: live, if `freed` threw). Later blocks of a batch of
 * frees stay live. A CachingAllocator calls `freed` for a block whose `allocated` threw.
 */
class AllocationObserver {
 public:
  virtual ~AllocationObserver() = default;
  /** @brief Reports an allocation. */
  virtual void allocated(const AllocationEvent&) {}
  /** @brief Reports that a stream uses the allocation with this id: `Allocator::record_use`. */
  virtual void use_recorded(std::uint64_t /*id*/, StreamId) {}
  /** @brief Reports a free. */
  virtual void freed(const FreeEvent&) {}
  /**
   * @brief Reports that the allocator got memory.
   *
   * The memory by which a range grows is reported as a segment. It may begin at the end of another
   * segment, and a block may then span both.
   */
  virtual void segment_acquired(void* /*base*/, std::size_t /*bytes*/) {}
  /**
   * @brief Reports that the allocator gave memory back: a segment, or any part of a range's
   *        segments.
   */
  virtual void segment_released(void* /*base*/, std::size_t /*bytes*/) {}
  /**
   * @brief Reports that free pages of ranges moved to other addresses.
   *
   * The pages keep their contents. Work that is already enqueued still accesses them at the old
   * addresses.
   * @param to     the new address
   * @param from   the old address
   * @param bytes  size, in whole pages
   */
  virtual void pages_moved(void* to, void* from, std::size_t bytes) {
    segment_released(from, bytes);
    segment_acquired(to, bytes);
  }
};

}  // namespace millrace
