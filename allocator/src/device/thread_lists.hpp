#pragma once

#include <vector>

#include "millrace/ordering/ledger.hpp"

namespace millrace {

/** @brief Lists that a thread reuses, so that polls allocate nothing. */
struct ThreadLists {
  std::vector<MarkerToken> done;
  std::vector<WaitableMarker> oldest;

  ThreadLists() = default;
  ThreadLists(const ThreadLists&) = delete;
  ThreadLists& operator=(const ThreadLists&) = delete;
  ~ThreadLists();

  /**
   * @brief Returns the calling thread's lists; nullptr after their destruction: destructors of
   *        static objects may still free memory.
   */
  [[nodiscard]] static ThreadLists* of_this_thread();
};

}  // namespace millrace
