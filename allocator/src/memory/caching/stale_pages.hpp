#pragma once

#include <cstddef>
#include <deque>

#include "memory/caching/completions.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "millrace/device/mutex.hpp"

namespace millrace {

/**
 * @brief Old addresses of pages that were moved. They stay mapped until the work enqueued on them
 *        is complete. Called under the lock, which is dropped for calls of the source.
 */
class StalePages {
 public:
  StalePages(Stock& stock, Completions& completions) : stock_(stock), completions_(completions) {}

  /** @brief Claimed -> stale: adds the old addresses of moved pages. */
  void add(Block* block);
  /** @brief Returns the stale blocks, the oldest first. */
  [[nodiscard]] const std::deque<Block*>& blocks() const noexcept { return blocks_; }
  /** @brief Returns whether all work on the block is known to be complete. */
  [[nodiscard]] bool is_complete(const Block& block) const;

  /**
   * @brief Unmaps the first `bytes` of a stale block, in whole pages, if its work is complete.
   *        Leaves a hole.
   * @return false if the driver refused; true also if the work is not complete, or another thread
   *         unmapped the block first
   */
  bool unmap(Block* block, std::size_t bytes, Lock& lock);
  /**
   * @brief Unmaps stale blocks, the oldest first, until at most `most` bytes of them are left or
   *        the work on the next one is not known to be complete.
   * @return false if the driver refused
   */
  bool unmap_until(std::size_t most, Lock& lock);
  /**
   * @brief Waits on the host for the work on all stale blocks, and unmaps them.
   * @return false if the host cannot wait, or the driver refused
   */
  bool unmap_all(Lock& lock);

 private:
  void keep_first(Block* block, std::size_t bytes);

  Stock& stock_;
  Completions& completions_;
  std::deque<Block*> blocks_;
  std::size_t bytes_ = 0;
  Mutex ending_;  // held while a stale block is unmapped; taken before the allocator's lock
};

}  // namespace millrace
