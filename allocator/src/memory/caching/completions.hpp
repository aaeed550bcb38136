#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/pending_frees.hpp"

namespace millrace {

/**
 * @brief Queries the device, or waits for it on the host, and frees blocks whose uses are complete.
 *
 * Keeps the frees that only a poll completes (FreeWhen::polled). Called under the lock, except
 * `ask_before_lock`; the lock is dropped for calls of the device.
 */
class Completions {
 public:
  Completions(Stock& stock, FreeBlocks& free_blocks)
      : stock_(stock), free_blocks_(free_blocks), pending_(stock.device.ledger()) {}

  /** @brief Queries the device, then sweeps. */
  void poll(Lock& lock);
  /** @brief Queries the device. Blocks that this finds complete are free after the next sweep. */
  void ask(Lock& lock);
  /**
   * @brief Queries the device before the caller takes the lock, if frees seem to be pending.
   * @return whether it queried; it may miss a free of another thread
   */
  bool ask_before_lock();
  /**
   * @brief Queries the device, then sweeps. With `Policy::before_growing` and more than
   *        `kMostPolled` streams in flight, queries only for some of the queues of free blocks.
   * @return whether it queried all streams in flight
   */
  bool poll_what_waits(Lock& lock);
  /**
   * @brief Frees pending blocks whose uses are known to be complete, and makes drained blocks
   *        ready.
   */
  void sweep() {
    sweep([&](Block* block) { free_blocks_.put(block); });
  }
  /**
   * @brief The same. Calls `put` for each block that was pending, claimed, in the order of the
   *        frees.
   */
  template <typename Put>
  void sweep(const Put& put) {
    if (!sweep_drained()) return;
    const std::vector<Block*>& completed = pending_.completed();
    if (pending_.empty()) has_pending_.store(false, std::memory_order_relaxed);
    for (std::size_t i = 0; i < completed.size(); ++i) {
      Block* const block = completed[i];
      stock_.turns.current().drained(block->bytes);
      block->state = BlockState::claimed;
      try {
        put(block);
      } catch (...) {  // out of host memory: the others are for the next sweep
        pending_.put_back(std::span{completed}.subspan(i + 1));
        has_pending_.store(!pending_.empty(), std::memory_order_relaxed);
        throw;
      }
    }
  }

  /**
   * @brief Blocks the host until `points` are complete, then sweeps. Drops the lock if there are
   *        points.
   * @return false if `points` is empty, a capture forbids the wait, or no synchronization covers a
   *         point
   */
  bool await(const PointSet& points, Lock& lock);
  /**
   * @brief Blocks the host until all uses of the claimed block are complete. If it throws, the
   *        block is free again.
   * @return false if the host cannot wait; the block is still claimed
   */
  bool complete_on_host(Block* block, Lock& lock);

  /** @brief Claimed -> pending: keeps the block back until a poll finds its points complete. */
  void hold_back(Block* block);
  [[nodiscard]] const PendingFrees& pending() const noexcept { return pending_; }

 private:
  // Number of streams in flight up to which each search queries all, and of queues that it polls
  // beyond that. A request that is about to grow queries all streams.
  static constexpr std::size_t kMostPolled = 64;

  bool sweep_drained();

  Stock& stock_;
  FreeBlocks& free_blocks_;
  PendingFrees pending_;
  std::atomic<bool> has_pending_{false};  // written under the lock
  std::uint64_t swept_ = 0;               // the ledger's epoch at the last sweep
};

}  // namespace millrace
