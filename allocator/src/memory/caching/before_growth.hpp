#pragma once

#include "memory/caching/completions.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/merging.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/** @brief What a request can have with less than new memory. What is returned is claimed. */
class BeforeGrowth {
 public:
  BeforeGrowth(Stock& stock, Completions& completions, FrontUpkeep& upkeep, Reuse& reuse,
               Merging& merging)
      : stock_(stock),
        completions_(completions),
        upkeep_(upkeep),
        reuse_(reuse),
        merging_(merging) {}

  /** @param left_out  streams are in flight that the search did not ask about */
  Block* take(const Request& request, Lock& lock, bool left_out);

 private:
  bool mark_what_waits(Lock& lock);

  Stock& stock_;
  Completions& completions_;
  FrontUpkeep& upkeep_;
  Reuse& reuse_;
  Merging& merging_;
};

}  // namespace millrace
