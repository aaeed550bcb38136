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
 * @brief Asks the device, or waits on the host for it, and frees what that shows to be complete.
 *
 * Has the frees that only a poll completes (FreeWhen::polled).
 */
class Completions {
 public:
  Completions(Stock& stock, FreeBlocks& free_blocks)
      : stock_(stock), free_blocks_(free_blocks), pending_(stock.device.ledger()) {}

  void poll(Lock& lock);
  /** @brief Asks the device. What that shows is free after a sweep. */
  void ask(Lock& lock);
  /**
   * @brief The same before the caller takes the lock, if there seem to be pending frees.
   * @return whether it asked; it may miss a free of another thread
   */
  bool ask_before_lock();
  /**
   * @brief Asks about at most `kMostPolled` streams. With more in flight: those that free blocks
   *        wait for.
   * @return whether it asked about all
   */
  bool poll_what_waits(Lock& lock);
  /** @brief What polls have shown: pending blocks become free, draining ones drained. */
  void sweep() {
    sweep([&](Block* block) { free_blocks_.put(block); });
  }
  /** @brief The same. `put` has each block that was pending, claimed, in the order of the frees. */
  template <typename Put>
  void sweep(const Put& put) {
    if (!sweep_drained()) return;
    const std::vector<Block*>& completed = pending_.completed();
    if (pending_.empty()) has_pending_.store(false, std::memory_order_relaxed);
    for (Block* const block : completed) {
      stock_.turns.current().drained(block->bytes);
      block->state = BlockState::claimed;
      put(block);
    }
  }

  /** @brief The host waits for `points`. False if there are none, or if a capture forbids it. */
  bool await(const PointSet& points, Lock& lock);
  /** @brief The host waits until nothing uses the claimed block. It is free again if that throws.
   */
  bool complete_on_host(Block* block, Lock& lock);

  /** @brief Claimed -> pending, until a poll sees its points complete. */
  void hold_back(Block* block);
  [[nodiscard]] const PendingFrees& pending() const noexcept { return pending_; }

 private:
  // Streams that a request asks the device about. Before it grows it asks about all.
  static constexpr std::size_t kMostPolled = 64;

  template <typename Poll>
  void unlocked(Lock& lock, const Poll& poll);
  bool sweep_drained();

  Stock& stock_;
  FreeBlocks& free_blocks_;
  PendingFrees pending_;
  std::atomic<bool> has_pending_{false};  // written under the lock
  std::uint64_t swept_ = 0;               // the ledger's epoch at the last sweep
};

}  // namespace millrace
