#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/lean_limit.hpp"
#include "memory/caching/range_pages.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stale_pages.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/move_patience.hpp"

namespace millrace {

/**
 * @brief Maps free pages of ranges a second time, where a request needs them, instead of new
 *        memory.
 */
class MovedPages {
 public:
  MovedPages(Stock& stock, const Reports& reports, FreeBlocks& free_blocks,
             const FrontUpkeep& upkeep, const Reuse& reuse, StalePages& stale,
             RangePages& range_pages)
      : stock_(stock),
        reports_(reports),
        free_blocks_(free_blocks),
        upkeep_(upkeep),
        reuse_(reuse),
        stale_(stale),
        range_pages_(range_pages),
        limit_(stock),
        move_patience_(stock.policy.moved_before_growth) {}

  /**
   * @brief Claims whole free pages that can be moved for the request, at most `bytes`. Neither a
   *        stream nor the host waits.
   */
  std::vector<Block*> gather(const Request& request, std::size_t bytes);
  /**
   * @brief Maps claimed pages at the beginning of `to` as well, which gets their points. The old
   *        addresses are stale, and are unmapped once these points are complete. Pages that the
   *        device did not move are free again. Drops the lock for the calls.
   * @return the rest of `to`, which still has no memory; nullptr if nothing is missing
   */
  Block* move(std::span<Block* const> pages, Block* to, Lock& lock);

 private:
  class Movable;

  [[nodiscard]] std::size_t growth_in_turn();
  Block* claim_pages(Movable& movable, Block* first, Block* last, std::size_t most);
  [[nodiscard]] std::size_t unneeded(StreamId lane);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  const FrontUpkeep& upkeep_;
  const Reuse& reuse_;
  StalePages& stale_;
  RangePages& range_pages_;
  const LeanLimit limit_;
  MovePatience move_patience_;
};

}  // namespace millrace
