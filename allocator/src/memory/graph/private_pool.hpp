#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "memory/few.hpp"
#include "memory/graph/capture_order.hpp"
#include "memory/graph/pool_source.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/graph_pool.hpp"

namespace millrace {

/**
 * @brief The memory of graphs that do not run at once: an allocator of its own, on a ledger of its
 *        own, with segments that it holds until no graph does.
 *
 * A stream "of the capture" is named by its reference in `order`, others by the device's.
 */
class PrivatePool {
 public:
  PrivatePool(GraphMemory& memory, OrderedDevice& device, const Policy& policy,
              GraphPool::HeldUntil until);
  ~PrivatePool();
  PrivatePool(const PrivatePool&) = delete;
  PrivatePool& operator=(const PrivatePool&) = delete;

  [[nodiscard]] CaptureOrder& order() noexcept { return order_; }
  [[nodiscard]] const CaptureOrder& order() const noexcept { return order_; }
  [[nodiscard]] bool capturing() const noexcept { return capturing_; }
  /** @brief How many captures have begun. */
  [[nodiscard]] std::uint64_t captures() const noexcept { return captures_; }

  /** @throws std::logic_error if a capture goes on */
  void begin();
  /** @brief @param kept  a graph came of it @return the streams that took part */
  std::vector<StreamRef> end(bool kept);

  /** @brief Whether no capture has ended with a graph. */
  [[nodiscard]] bool never_ran();

  /** @brief For streams of the capture. @throws out_of_memory, of the general allocator */
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef owner, StreamRef user);
  [[nodiscard]] CachingAllocator& memory() noexcept { return inner_; }
  /** @brief Frees what was used outside of captures as well, until `points`. */
  void free_after(void* address, const PointSet& points);

  void reserve(std::size_t bytes);
  void launched(StreamRef stream);

  /** @brief Nobody holds it any more: gives back all that is free. @return whether that was all */
  bool give_back();
  /** @brief What must come before the next use of memory that its graphs used. */
  [[nodiscard]] PointSet points();
  /** @brief Once it is empty. */
  void close();

  [[nodiscard]] GraphPoolStatistics statistics();

 private:
  void settle();
  void drop_unused();

  OrderedDevice& device_;
  const StreamRef nominal_;  // what the general allocator knows it by
  const GraphPool::HeldUntil until_;
  PoolSource source_;
  CaptureOrder order_;
  CachingAllocator inner_;
  std::atomic<bool> capturing_{false};
  std::atomic<std::uint64_t> captures_{0};

  std::mutex mutex_;  // of everything below; never held across a call of `inner_`
  std::vector<std::pair<void*, PointSet>> outside_;  // freed, and maybe used outside still
  PointSet launches_;                                // and of what was freed outside before
  bool any_launch_ = false;
  bool ran_ = false;  // a graph came of a capture
};

}  // namespace millrace
