#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "millrace/ordering/frontier.hpp"

namespace millrace {

/** @brief A block was given out. Valid during the call only. */
struct AllocationEvent {
  std::uint64_t id;  ///< no two alike; counts allocations while there is an observer
  void* address;
  std::size_t requested;  ///< bytes asked for
  std::size_t bytes;      ///< bytes of the block
  StreamId owner;
  StreamId user;  ///< who may use it from now on: the owner, or the first user
  std::string_view tag;
  /** What `user` is ordered after, waits inserted for this allocation included. */
  const Frontier& frontier;
  const Frontier& completed;  ///< what the device was known to have finished
};

/** @brief A block came back. `points`: who must be waited for before it can be used again. */
struct FreeEvent {
  std::uint64_t id;
  void* address;
  std::size_t bytes;
  std::span<const Point> points;
};

/**
 * @brief Sees what an allocator does, in the order it does it, under the allocator's lock.
 *
 * Must not call the allocator or the device. Costs one branch when there is none.
 */
class AllocationObserver {
 public:
  virtual ~AllocationObserver() = default;
  virtual void allocated(const AllocationEvent&) {}
  virtual void use_recorded(std::uint64_t /*id*/, StreamId) {}
  virtual void freed(const FreeEvent&) {}
  /** @brief Memory is there now. What a range grows by counts as a segment of its own, and may lie
   * right behind another; blocks then span both. */
  virtual void segment_acquired(void* /*base*/, std::size_t /*bytes*/) {}
  /** @brief It is gone. Of a range: any part of what was acquired, one piece or several. */
  virtual void segment_released(void* /*base*/, std::size_t /*bytes*/) {}
};

}  // namespace millrace
