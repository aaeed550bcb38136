#pragma once

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/** @brief The lane of a request: where it looks first. What is returned is claimed. */
class OwnLane {
 public:
  OwnLane(Stock& stock, FreeBlocks& free_blocks, HeldFrees& held)
      : stock_(stock), free_blocks_(free_blocks), held_(held) {}

  /** @brief The best fit that needs no wait. What other streams' fronts keep does not change it. */
  Block* take(const Request& request);
  /** @brief PyTorch's best fit: the smallest block that is large enough, then the lowest address.
   */
  Block* take_best_fit(const Request& request);

 private:
  Stock& stock_;
  FreeBlocks& free_blocks_;
  HeldFrees& held_;
};

}  // namespace millrace
