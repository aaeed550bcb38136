#pragma once

#include <cstddef>
#include <vector>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/lean_limit.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief Treats the free blocks of all streams as those of one, if the reserved bytes of segments
 *        creep up (LeanLimit::creeps). Called under the lock.
 *
 * Neighbors that are kept for different streams do not merge, and a stream splits its own large
 * block although another stream has a block that fits. Both are good for loops. In a program of
 * random sizes, free memory of several streams falls into pieces that are too small.
 */
class JoinedLanes {
 public:
  JoinedLanes(Stock& stock, FreeBlocks& free_blocks, Reuse& reuse)
      : stock_(stock), free_blocks_(free_blocks), reuse_(reuse), limit_(stock) {}

  /**
   * @brief Takes a complete block of another lane that fits better than the best fit of the
   *        request's lane.
   * @return nullptr if there is none, if that lane has no fit, or if nothing creeps
   */
  Block* take_closer(const Request& request);
  /**
   * @brief Moves the complete blocks of all lanes to the request's lane, where they merge, and
   *        takes the best fit. The last resort before memory grows.
   * @return nullptr if nothing fits, or if nothing creeps
   */
  Block* take_joined(const Request& request);

 private:
  [[nodiscard]] bool serves(const Request& request) const;
  bool join(const Request& request, std::size_t most);

  Stock& stock_;
  FreeBlocks& free_blocks_;
  Reuse& reuse_;
  const LeanLimit limit_;
  std::size_t requests_ = 0;    // since the last call that joined lanes
  std::vector<Block*> others_;  // of `join`
};

}  // namespace millrace
