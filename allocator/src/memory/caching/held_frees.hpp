#pragma once

#include <cstddef>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/held_blocks.hpp"

namespace millrace {

/**
 * @brief Keeps the block that each stream freed last, unmerged: the held block of its lane. Only
 *        with Sharing::own_stream. Callers hold the lock.
 */
class HeldFrees {
 public:
  HeldFrees(Stock& stock, const Reports& reports, FreeBlocks& free_blocks, FrontUpkeep& upkeep)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks), upkeep_(upkeep) {}

  /**
   * @brief Holds a claimed block that only its lane's stream has used. Puts the block that was held
   *        for the lane on its shelf. If this throws, the claimed block is live again;
   *        if an observer throws, it is held.
   * @return false if the block is not held
   */
  [[nodiscard]] bool hold(Block* block, StreamRef stream) {
    return !stock_.lanes_mix && hold_in_lane(block, stream);
  }
  /**
   * @brief Puts a claimed block that a poll has found complete on its shelf, or holds it in place
   *        of the held block of its lane.
   */
  void put_completed(Block* block);
  /**
   * @brief Gives out the held block of the request's lane, if PyTorch would serve the request at
   *        its address. Otherwise puts the held block on its shelf. While frees are pending, the
   *        caller polls first, because free blocks that fit better may appear.
   * @return nullptr if the held block does not serve
   */
  Block* take(const Request& request) { return stock_.lanes_mix ? nullptr : take_of_lane(request); }

  /** @brief Puts the lane's held block on its shelf. Call it before a search of the lane. */
  void shelve(StreamId lane) {
    if (Block* const block = held_.take(lane)) put_back(block);
  }
  /** @brief The same for all lanes. */
  void shelve();

 private:
  bool hold_in_lane(Block* block, StreamRef stream);
  Block* take_of_lane(const Request& request);
  [[nodiscard]] bool is_best_fit(const Block& held) const;
  void put_back(Block* held);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  FrontUpkeep& upkeep_;
  HeldBlocks held_;
};

}  // namespace millrace
