#pragma once

#include <vector>

#include "device/marker_search.hpp"
#include "millrace/ordering/ledger.hpp"

namespace millrace {

/** @brief Lists that a thread reuses, so that polls allocate nothing. */
struct ThreadLists {
  std::vector<MarkerToken> done;
  // Of a poll. `polls`: they are in use.
  std::vector<WaitableMarker> oldest;
  std::vector<MarkerSearch> searches;
  bool polls = false;

  /** @brief Sets `polls` while it exists. */
  class Poll {
   public:
    explicit Poll(ThreadLists& lists) : lists_(lists) { lists_.polls = true; }
    ~Poll() { lists_.polls = false; }
    Poll(const Poll&) = delete;
    Poll& operator=(const Poll&) = delete;

   private:
    ThreadLists& lists_;
  };

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
