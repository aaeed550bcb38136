#pragma once

#include <span>
#include <vector>

#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/stock.hpp"
#include "memory/graph/graph_pools.hpp"

namespace millrace {

/**
 * @brief Finds and claims live blocks by address, and keeps their recorded uses. Callers hold the
 *        allocator's lock.
 */
class Allocations {
 public:
  Allocations(Stock& stock, const GraphPools& graphs, FrontUpkeep& upkeep)
      : stock_(stock), graphs_(graphs), upkeep_(upkeep) {}

  /**
   * @brief Returns the live block at `address`.
   * @param call  name of the public function, for the error message
   * @throws std::invalid_argument if `address` is not a live allocation of the caller
   */
  [[nodiscard]] Block* find(const char* call, const void* address) const;
  /**
   * @brief Like `find`, and claims the block, so a free of it by another thread is refused.
   *
   * Takes the lock of the block's front, because a front changes the state of a block without the
   * allocator's lock.
   */
  Block* claim(const char* call, void* address);
  /**
   * @brief Claims the blocks at all addresses, or none; ignores null.
   * @throws std::invalid_argument if an address is not a live allocation, or appears twice
   */
  [[nodiscard]] std::vector<Block*> claim(std::span<void* const> addresses);

  /**
   * @brief Returns the block's record of uses by other streams than its owner. Adds one if the
   *        block has none, preferably a spare record of its front.
   */
  UseRecord& use_record_of(Block& block);
  /**
   * @brief Records that `stream` uses the block.
   * @return false if that use was recorded before, or `stream` is the owner
   */
  bool add_use(Block& block, StreamRef stream);
  /** @brief Makes `new_owner` the block's owner, and records the use by the former owner. */
  void transfer(Block& block, StreamRef new_owner);

 private:
  Stock& stock_;
  const GraphPools& graphs_;
  FrontUpkeep& upkeep_;
};

}  // namespace millrace
