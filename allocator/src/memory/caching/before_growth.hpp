#pragma once

#include "memory/caching/completions.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/joined_lanes.hpp"
#include "memory/caching/merging.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/** @brief Finds memory that costs less than growth. Returned blocks are claimed. */
class BeforeGrowth {
 public:
  BeforeGrowth(Stock& stock, Completions& completions, FrontUpkeep& upkeep, Reuse& reuse,
               Merging& merging, JoinedLanes& joined)
      : stock_(stock),
        completions_(completions),
        upkeep_(upkeep),
        reuse_(reuse),
        merging_(merging),
        joined_(joined) {}

  /**
   * @brief Marks streams whose last uses of free blocks no marker covers. Polls and searches again
   *        if that recorded a marker, or if `left_out`. Otherwise, and if nothing was found, takes
   *        a complete block of a stream that has nothing live, or the best fit of joined lanes.
   *        Drops the lock.
   * @param left_out  true: the search did not query all streams in flight
   * @return nullptr if nothing serves, or the policy has no `before_growing`
   */
  Block* take(const Request& request, Lock& lock, bool left_out);

 private:
  bool mark_what_waits(Lock& lock);

  Stock& stock_;
  Completions& completions_;
  FrontUpkeep& upkeep_;
  Reuse& reuse_;
  Merging& merging_;
  JoinedLanes& joined_;
};

}  // namespace millrace
