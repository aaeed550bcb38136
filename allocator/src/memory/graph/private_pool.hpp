#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "memory/few.hpp"
#include "memory/graph/capture_order.hpp"
#include "memory/graph/nominal_stream.hpp"
#include "memory/graph/pool_source.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/graph_pool.hpp"

namespace millrace {

/**
 * @brief The memory of graphs that never run at the same time: an allocator on a ledger of its own,
 *        whose segments the pool keeps until no graph uses them.
 *
 * Callers pass the inner references of streams of the capture (`CaptureOrder`), and the device's
 * references of others. It makes no driver call unless its comment says so.
 */
class PrivatePool {
 public:
  PrivatePool(GraphMemory& memory, OrderedDevice& device, const Policy& policy,
              GraphPool::HeldUntil until);
  ~PrivatePool() = default;
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  [[nodiscard]] CaptureOrder& order() noexcept { return order_; }
  [[nodiscard]] const CaptureOrder& order() const noexcept { return order_; }
  [[nodiscard]] bool capturing() const noexcept { return capturing_; }
  /** @brief Returns the number of captures that have begun. */
  [[nodiscard]] std::uint64_t captures() const noexcept { return captures_; }

  /**
   * @brief Begins a capture. Polls the device.
   * @throws std::logic_error if the pool is in a capture
   */
  void begin();
  /**
   * @brief Ends the capture, also if it throws.
   * @param kept  true: it made a graph; false: free memory that was acquired for it is given back
   */
  void end(bool kept);

  /** @brief Returns whether no capture has ended with a graph. */
  [[nodiscard]] bool never_ran();

  /**
   * @brief Allocates memory for streams of the capture. Concurrent requests do not make each other
   *        fail.
   * @throws out_of_memory of the general allocator, if it and the pool together have no such memory
   */
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef owner, StreamRef user);
  [[nodiscard]] CachingAllocator& memory() noexcept { return inner_; }
  /**
   * @brief Frees a block that was used outside of captures, too.
   * @param points  what must come before its next use
   */
  void free_after(void* address, PointSet points);

  /**
   * @brief Adds memory until the pool has `bytes` in one piece.
   * @throws out_of_memory as `allocate`
   * @throws std::logic_error if the pool is in a capture
   */
  void reserve(std::size_t bytes);
  /** @brief Notes a launch on the stream. Marks the stream if it is not attached. */
  void launched(StreamRef stream);

  /**
   * @brief Gives back all free memory, since no graph will run again.
   * @return whether that was all memory
   */
  bool give_back();
  /** @brief Returns what must come before the next use of memory that its graphs used. */
  [[nodiscard]] PointSet points();
  /** @brief Ends a capture in progress, and closes the nominal stream of the pool. */
  void close();

  [[nodiscard]] GraphPoolStatistics statistics();

 private:
  struct Outside {
    void* address;
    PointSet points;
  };

  void add(std::size_t bytes, StreamRef owner, StreamRef user);
  void settle();
  void drop_unused();
  void forget_complete_launches();
  [[nodiscard]] bool complete(const PointSet& points) const;
  [[nodiscard]] bool launches_untold() const;

  static constexpr std::size_t kFewLaunches = 16;

  OrderedDevice& device_;
  NominalStream nominal_;  // requests to the general allocator are made in its name
  const GraphPool::HeldUntil until_;
  PoolSource source_;
  CaptureOrder order_;
  CachingAllocator inner_;
  std::atomic<bool> capturing_{false};
  std::atomic<std::uint64_t> captures_{0};

  std::mutex mutex_;              // guards everything below; never held across a call of `inner_`
  std::vector<Outside> outside_;  // freed, but maybe still in use outside of captures
  PointSet launches_;             // also points of blocks that were freed outside before
  std::size_t many_launches_ = kFewLaunches;  // size from which complete launches are removed
  bool any_launch_ = false;
  bool ran_ = false;  // a capture has made a graph
};

}  // namespace millrace
