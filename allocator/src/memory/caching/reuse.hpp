#pragma once

#include <cstddef>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/own_lane.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/** @brief Finds free blocks that a request may use without a wait. Returned blocks are claimed. */
class Reuse {
 public:
  Reuse(Stock& stock, FreeBlocks& free_blocks, const FrontUpkeep& upkeep, OwnLane& own_lane)
      : stock_(stock), free_blocks_(free_blocks), upkeep_(upkeep), own_lane_(own_lane) {}

  /**
   * @brief Takes the best fit of the request's lane, otherwise of other lanes, otherwise of memory
   *        that no stream has used.
   */
  Block* take_ready(const Request& request);
  /**
   * @brief Takes the best fit of complete blocks, of any size, whose streams have nothing live. In
   *        programs whose streams take turns, such a stream waits for another phase of the program.
   */
  Block* take_from_idle(const Request& request);

  /**
   * @brief Returns whether `lane` is the lane of another stream that exists: it would miss a large
   *        block that this request splits.
   */
  [[nodiscard]] bool kept_for_other(StreamId lane, const Request& request) const;
  /**
   * @brief Returns the size of the largest block kept for another stream that the request may take.
   */
  [[nodiscard]] std::size_t carve_limit(const Request& request) const;

 private:
  [[nodiscard]] Block* least_complete(const Request& request);
  [[nodiscard]] Block* least_ordered(const Request& request);

  Stock& stock_;
  FreeBlocks& free_blocks_;
  const FrontUpkeep& upkeep_;
  OwnLane& own_lane_;
};

}  // namespace millrace
