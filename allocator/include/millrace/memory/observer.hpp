#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/ordering/frontier.hpp"

namespace millrace {

/** @brief An allocation. Valid only during the call. */
struct AllocationEvent {
  std::uint64_t id;  ///< unique; counts the allocations while there is an observer
  void* address;
  std::size_t requested;  ///< bytes asked for
  std::size_t bytes;      ///< bytes of the block
  StreamId owner;
  StreamId user;  ///< the stream that may use it from now on: the owner or the first user
  std::string_view tag;
  /// What `user` is ordered after, including waits that were inserted for this allocation.
  const Frontier& frontier;
  const Frontier& completed;  ///< what the device was known to have finished
};

/** @brief A free. Valid only during the call. */
struct FreeEvent {
  std::uint64_t id;
  void* address;
  std::size_t bytes;
  std::span<const Point> points;  ///< all of them must happen before the next use of the block
};

/**
 * @brief Is called for each allocation and free, in order, under the allocator's lock.
 *
 * Must not call the allocator or the device. Without an observer the cost is one branch.
 */
class AllocationObserver {
 public:
  virtual ~AllocationObserver() = default;
  virtual void allocated(const AllocationEvent&) {}
  virtual void use_recorded(std::uint64_t /*id*/, StreamId) {}
  virtual void freed(const FreeEvent&) {}
  /**
   * @brief The allocator got memory.
   *
   * The memory by which a range grows is reported as a segment. It may begin where another segment
   * ends, and a block may then span both.
   */
  virtual void segment_acquired(void* /*base*/, std::size_t /*bytes*/) {}
  /** @brief The allocator gave memory back: a segment, or any part of a range's segments. */
  virtual void segment_released(void* /*base*/, std::size_t /*bytes*/) {}
  /**
   * @brief Free memory of ranges has other addresses now: the same pages, with what work that is
   *        enqueued already does to them.
   */
  virtual void pages_moved(void* to, void* from, std::size_t bytes) {
    segment_released(from, bytes);
    segment_acquired(to, bytes);
  }
};

}  // namespace millrace
