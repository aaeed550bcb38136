#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "memory/caching/unlocked.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/** @brief What the program registered to free memory of its own before a request fails. */
class Callbacks {
 public:
  using Ask = CachingAllocator::MemoryCallback;

  /** @param turn  lower ones are asked first; equal ones in the order in which they were added */
  void add(Ask ask, int turn) {
    const auto after = std::ranges::upper_bound(callbacks_, turn, {}, &Callback::turn);
    callbacks_.insert(after, {turn, std::move(ask)});
  }

  /**
   * @brief Asks one after the other for `bytes`, without the lock. Those that are added meanwhile
   *        are not asked.
   * @param serves  called after each, under the lock, with what it said; true ends it
   */
  template <typename Serves>
  void ask(std::size_t bytes, Lock& lock, const Serves& serves) const {
    const std::vector<Callback> asked = callbacks_;
    for (const auto& [turn, callback] : asked) {
      bool freed = false;
      {
        const Unlocked unlocked{lock};
        freed = callback(bytes);
      }
      if (serves(freed)) return;
    }
  }

 private:
  struct Callback {
    int turn;
    Ask ask;
  };
  std::vector<Callback> callbacks_;  // by turn
};

}  // namespace millrace
