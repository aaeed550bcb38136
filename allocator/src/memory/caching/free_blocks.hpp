#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief Puts blocks where requests find them, and takes them out again: keeps shelves, runs and
 * the meter in step. Under the lock.
 */
class FreeBlocks {
 public:
  explicit FreeBlocks(Stock& stock) : stock_(stock) {}

  /**
   * @brief Claimed -> free, in its lane, with the free neighbors that it can be merged with.
   * @param missing  what its lane would have to wait for, as `Shelves::missing` says
   */
  void put(Block* block, const Point* missing);
  void put(Block* block) {
    put(block, stock_.lanes_mix ? stock_.shelves.missing(*block, block->lane) : nullptr);
  }
  /** @brief The same of a block that no neighbor can be merged with. */
  void shelve(Block* block, const Point* missing = nullptr);

  /** @brief Free -> claimed. */
  void claim(Block* block) {
    const bool mixes = stock_.lanes_mix;
    if (mixes && block->waits == BlockWaits::for_all) stock_.turns.current().drained(block->bytes);
    const bool is_in_run = mixes && block->waits != BlockWaits::unlisted;
    stock_.shelves.claim(block);
    if (is_in_run) stock_.runs.claimed(block);
  }
  /** @brief Claims `first` and the free blocks after it, as one block of at least `bytes`. */
  void merge_until(Block* first, std::size_t bytes);
  /** @brief Whether a claimed block of `lane`, which that may have, becomes one with `neighbor`. */
  [[nodiscard]] static bool mergeable(const Block* neighbor, StreamId lane) {
    return neighbor != nullptr && neighbor->state == BlockState::free &&
           neighbor->waits != BlockWaits::for_all && neighbor->lane == lane;
  }
  /** @brief Whether what a request of `bytes` leaves of the block is split off. */
  [[nodiscard]] bool worth_splitting(const Block& block, std::size_t bytes) const {
    return worth_splitting(block, block.bytes, bytes);
  }
  /** @brief The same for a block of `block_bytes` in the place of `like`. */
  [[nodiscard]] bool worth_splitting(const Block& like, std::size_t block_bytes,
                                     std::size_t bytes) const;

  /** @brief Before anybody looks at more than one lane. */
  void list_all();
  /** @brief The same, and lets all streams see what polls have shown to be complete. */
  void settle();
  /** @brief Gives what was kept for destroyed streams, with all their work complete, to all. */
  void merge_former_lanes();

 private:
  void note_free(const Block& block, std::size_t bytes);

  Stock& stock_;
  std::uint64_t clock_ = 0;    // ages of segments
  std::uint64_t settled_ = 0;  // the ledger's epoch when it last settled
};

}  // namespace millrace
