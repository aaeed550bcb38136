#pragma once

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/**
 * @brief Takes blocks from the lane of a request, which is searched first. Returned blocks are
 *        claimed.
 */
class OwnLane {
 public:
  OwnLane(Stock& stock, FreeBlocks& free_blocks, HeldFrees& held)
      : stock_(stock), free_blocks_(free_blocks), held_(held) {}

  /**
   * @brief Takes the best fit that needs no wait. Blocks in other streams' fronts do not change the
   *        result.
   */
  Block* take(const Request& request);
  /**
   * @brief Takes PyTorch's best fit: the smallest block that is large enough; of several, the one
   *        at the lowest address. Obeys Policy::max_split.
   */
  Block* take_best_fit(const Request& request);

 private:
  Stock& stock_;
  FreeBlocks& free_blocks_;
  HeldFrees& held_;
};

}  // namespace millrace
