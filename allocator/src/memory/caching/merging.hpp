#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/caching/waiting.hpp"

namespace millrace {

/** @brief Merges free neighbors that together serve a request. Returned blocks are claimed. */
class Merging {
 public:
  Merging(Stock& stock, FreeBlocks& free_blocks, const Reuse& reuse, Waiting& waiting)
      : stock_(stock), free_blocks_(free_blocks), reuse_(reuse), waiting_(waiting) {}

  /**
   * @brief Takes the smallest sufficient run of neighbors that need no wait.
   * @param most  maximum bytes of a run with a block that is kept for another stream
   * @return nullptr if no run serves
   */
  Block* take(const Request& request, std::size_t most);
  /**
   * @brief Takes a run of neighbors that the user can wait for, and makes the user wait. Takes
   *        neighbors that are kept for other streams only under pressure, that is if `newest` is
   *        OrderedDevice::kTail. Drops the lock for the waits.
   * @param newest  serial of the newest marker to wait for
   * @return nullptr if no run serves
   */
  Block* take_waiting(const Request& request, std::uint64_t newest, Lock& lock);

 private:
  template <typename Usable>
  Block* least_run(const Request& request, std::size_t most, const Usable& usable);

  Stock& stock_;
  FreeBlocks& free_blocks_;
  const Reuse& reuse_;
  Waiting& waiting_;
};

}  // namespace millrace
