#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/caching/lean_limit.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief Puts free blocks on the shelves, where requests find them, and takes them out. Keeps runs
 *        and the meter consistent with the shelves. Callers hold the lock.
 */
class FreeBlocks {
 public:
  explicit FreeBlocks(Stock& stock) : stock_(stock), limit_(stock) {}

  /**
   * @brief Claimed -> free: puts the block into its lane. If the lane may have it now, merges it
   *        with the free neighbors that it can be merged with.
   * @param missing  the first point that the lane's stream would have to wait for
   *                 (`Shelves::missing`); nullptr if the lane may have the block now
   */
  void put(Block* block, const Point* missing);
  /** @brief The same; determines `missing` itself. */
  void put(Block* block) {
    const bool may_miss = stock_.lanes_mix && !block->points.empty();
    put(block, may_miss ? stock_.shelves.missing(*block, block->lane) : nullptr);
  }
  /** @brief The same for a block that no neighbor can be merged with. */
  void shelve(Block* block, const Point* missing = nullptr);

  /** @brief Free -> claimed. */
  void claim(Block* block) {
    const bool mixes = stock_.lanes_mix;
    if (mixes && block->waits == BlockWaits::for_all) stock_.turns.current().drained(block->bytes);
    const bool is_in_run = mixes && block->waits != BlockWaits::unlisted;
    stock_.shelves.claim(block);
    if (is_in_run) stock_.runs.claimed(block);
  }
  /** @brief Claims `first` and free blocks after it, merged into one block of at least `bytes`. */
  void merge_until(Block* first, std::size_t bytes);
  /**
   * @brief Returns whether `neighbor` merges with a claimed block of `lane` that the lane may have
   *        now.
   */
  [[nodiscard]] static bool mergeable(const Block* neighbor, StreamId lane) {
    return neighbor != nullptr && neighbor->state == BlockState::free &&
           neighbor->waits != BlockWaits::for_all && neighbor->lane == lane;
  }
  /** @brief Returns whether the remainder is split off if a request of `bytes` takes the block. */
  [[nodiscard]] bool worth_splitting(const Block& block, std::size_t bytes) const {
    return worth_splitting(block, block.bytes, bytes);
  }
  /** @brief The same for a block of `block_bytes` with the segment and the lane of `like`. */
  [[nodiscard]] bool worth_splitting(const Block& like, std::size_t block_bytes,
                                     std::size_t bytes) const;

  /** @brief Lists all unlisted blocks. Call it before a search of more than one lane. */
  void list_all();
  /** @brief The same, and lets all streams find the blocks that polls have found complete. */
  void settle();
  /**
   * @brief Moves blocks of destroyed streams, whose work is all complete, to the lane of no stream.
   */
  void merge_former_lanes();

 private:
  void note_free(const Block& block, std::size_t bytes);
  [[nodiscard]] bool is_slack(const Segment& segment, std::size_t rest, std::size_t bytes) const;

  Stock& stock_;
  const LeanLimit limit_;
  std::uint64_t clock_ = 0;    // last value of Segment::age
  std::uint64_t settled_ = 0;  // the ledger's epoch at the last `settle`
};

}  // namespace millrace
