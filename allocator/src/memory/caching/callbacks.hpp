#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "memory/caching/unlocked.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/** @brief The program's callbacks, which free memory of its own before a request fails. */
class Callbacks {
 public:
  using Ask = CachingAllocator::MemoryCallback;

  /**
   * @brief Adds a callback.
   * @param turn  callbacks with lower numbers are called first; equal ones in the order of their
   *              addition
   */
  void add(Ask ask, int turn) {
    const auto after = std::ranges::upper_bound(callbacks_, turn, {}, &Callback::turn);
    callbacks_.insert(after, {turn, std::move(ask)});
  }

  /**
   * @brief Calls the callbacks one after the other, without the lock. Callbacks that are added
   *        meanwhile are not called.
   * @param bytes   rounded size of the request
   * @param serves  called after each callback, under the lock, with its result; true ends the loop
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
  std::vector<Callback> callbacks_;  // sorted by turn
};

}  // namespace millrace
