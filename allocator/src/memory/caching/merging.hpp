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

/** @brief Free neighbors that together serve a request. What is returned is claimed, as one block.
 */
class Merging {
 public:
  Merging(Stock& stock, FreeBlocks& free_blocks, const Reuse& reuse, Waiting& waiting)
      : stock_(stock), free_blocks_(free_blocks), reuse_(reuse), waiting_(waiting) {}

  /**
   * @brief Neighbors that need no wait.
   * @param most  bytes of a run of which any block is kept for another stream
   */
  Block* take(const Request& request, std::size_t most);
  /**
   * @brief Neighbors with all that they wait for. Under pressure, which is when `newest` is the
   * tail, whomever they are kept for.
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
