#pragma once

#include <cstddef>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/own_lane.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"

namespace millrace {

/** @brief What the one rule gives a request for nothing. What is returned is claimed. */
class Reuse {
 public:
  Reuse(Stock& stock, FreeBlocks& free_blocks, const FrontUpkeep& upkeep, OwnLane& own_lane)
      : stock_(stock), free_blocks_(free_blocks), upkeep_(upkeep), own_lane_(own_lane) {}

  /** @brief The best fit: of its own lane, of other lanes, of memory that no stream has used. */
  Block* take_ready(const Request& request);
  /**
   * @brief The best fit of complete blocks, however much larger than the request, of streams that
   *        have nothing live: such a stream waits for another phase of the program, as where
   * streams take turns.
   */
  Block* take_from_idle(const Request& request);

  /** @brief Whether a large piece of `lane` would be missed by its stream if another carved it. */
  [[nodiscard]] bool kept_for_other(StreamId lane, const Request& request) const;
  /** @brief The largest block that is kept for another stream and that the request may carve. */
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
