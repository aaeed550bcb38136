#pragma once

#include "memory/caching/completions.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/merging.hpp"
#include "memory/caching/own_lane.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/caching/waiting.hpp"

namespace millrace {

/**
 * @brief Searches for free blocks in the order of requests (caching_state.hpp). Returned blocks are
 *        claimed. Callers hold the lock; searches with a Lock may drop it.
 */
class Search {
 public:
  Search(Stock& stock, FreeBlocks& free_blocks, Completions& completions, FrontUpkeep& upkeep,
         OwnLane& own_lane, Reuse& reuse, Waiting& waiting, Merging& merging)
      : stock_(stock),
        free_blocks_(free_blocks),
        completions_(completions),
        upkeep_(upkeep),
        own_lane_(own_lane),
        reuse_(reuse),
        waiting_(waiting),
        merging_(merging) {}

  /**
   * @brief Searches before the allocator grows.
   * @param left_out  set to true if not all streams in flight were queried
   */
  Block* find(const Request& request, Lock& lock, bool& left_out);
  /** @brief The same; polls and searches once more if streams were left out. */
  Block* find_all(const Request& request, Lock& lock);
  /**
   * @brief Takes any free block that serves, of any lane and either pool, also one that needs a
   *        wait.
   */
  Block* find_any(const Request& request, Lock& lock);
  /** @brief Searches for the pool of a graph, without a wait and without a poll. */
  Block* find_complete(const Request& request);

  /**
   * @brief Returns what the host must wait for before free blocks could serve the request; may be
   *        empty.
   */
  [[nodiscard]] PointSet points_of_runs(const Request& request);

 private:
  Block* find_own(const Request& request, Lock& lock);
  Block* find_of_any_lane(const Request& request, Lock& lock, bool& left_out);
  Block* find_for_nothing(const Request& request, Lock& lock, bool& left_out);

  Stock& stock_;
  FreeBlocks& free_blocks_;
  Completions& completions_;
  FrontUpkeep& upkeep_;
  OwnLane& own_lane_;
  Reuse& reuse_;
  Waiting& waiting_;
  Merging& merging_;
};

}  // namespace millrace
