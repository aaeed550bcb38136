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
 * @brief The block that each stream freed last, not merged yet (Sharing::own_stream). Under the
 *        lock.
 *
 * With other policies it never has one.
 */
class HeldFrees {
 public:
  HeldFrees(Stock& stock, const Reports& reports, FreeBlocks& free_blocks, FrontUpkeep& upkeep)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks), upkeep_(upkeep) {}

  /**
   * @brief Holds a claimed block that only its lane's stream has used, in place of the one that is
   *        held there. False: it is not held. The block is live again if this throws.
   */
  [[nodiscard]] bool hold(Block* block, StreamRef stream) {
    return !stock_.lanes_mix && hold_in_lane(block, stream);
  }
  /**
   * @brief Puts a claimed block that a poll has found complete where it belongs, or holds it in
   *        place of the one that is held there.
   */
  void put_completed(Block* block);
  /**
   * @brief The block that is held for the lane of the request, given out, if the best fit for the
   *        request is what it would be merged into, less the rest that is split off. Otherwise none
   *        is held there any more. While frees are pending, the caller polls first: that may show
   *        free blocks that fit better.
   */
  Block* take(const Request& request) { return stock_.lanes_mix ? nullptr : take_of_lane(request); }

  /** @brief Puts the lane's held block where it belongs: before anybody looks at the lane. */
  void let_go(StreamId lane) {
    if (Block* const block = held_.take(lane)) put_back(block);
  }
  /** @brief The same of all lanes. */
  void let_go();

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
