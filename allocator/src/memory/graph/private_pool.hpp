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
 * @brief The memory of graphs that never run at once: an allocator on a ledger of its own, whose
 *        segments the pool holds until no graph does.
 *
 * Streams of the capture are given by their inner references (`CaptureOrder`), others by the
 * device's. It makes no driver call but where it says so.
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
  /** @brief How many captures have begun. */
  [[nodiscard]] std::uint64_t captures() const noexcept { return captures_; }

  /** @brief Polls the device. @throws std::logic_error if a capture goes on */
  void begin();
  /**
   * @brief Ends the capture, whatever it throws.
   * @param kept  a graph came of it; else what was acquired for it and is free is given back
   */
  void end(bool kept);

  /** @brief Whether no capture has ended with a graph. */
  [[nodiscard]] bool never_ran();

  /**
   * @brief Memory for streams of the capture. Threads that ask at once do not affect each other.
   * @throws out_of_memory, of the general allocator: the pool and it together have no such memory
   */
  [[nodiscard]] void* allocate(std::size_t bytes, StreamRef owner, StreamRef user);
  [[nodiscard]] CachingAllocator& memory() noexcept { return inner_; }
  /** @brief Frees a block that was used outside of captures too, until `points`. */
  void free_after(void* address, PointSet points);

  /** @throws out_of_memory as `allocate`  @throws std::logic_error if a capture goes on */
  void reserve(std::size_t bytes);
  /** @brief Marks the stream, if it is not attached. */
  void launched(StreamRef stream);

  /** @brief No graph will run again: gives back all that is free. @return whether that was all */
  bool give_back();
  /** @brief What must come before the next use of memory that its graphs used. */
  [[nodiscard]] PointSet points();
  /** @brief Ends a capture that goes on, and the stream in whose name it asked for memory. */
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
  NominalStream nominal_;  // in whose name it asks the general allocator
  const GraphPool::HeldUntil until_;
  PoolSource source_;
  CaptureOrder order_;
  CachingAllocator inner_;
  std::atomic<bool> capturing_{false};
  std::atomic<std::uint64_t> captures_{0};

  std::mutex mutex_;              // of everything below; never held across a call of `inner_`
  std::vector<Outside> outside_;  // freed, and maybe used outside still
  PointSet launches_;             // and of what was freed outside before
  std::size_t many_launches_ = kFewLaunches;  // when to look which are complete
  bool any_launch_ = false;
  bool ran_ = false;  // a graph came of a capture
};

}  // namespace millrace
