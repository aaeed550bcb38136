#pragma once

#include <span>
#include <vector>

#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/stock.hpp"
#include "memory/graph/graph_pools.hpp"

namespace millrace {

/** @brief Live blocks by address, and who uses them. Under the lock. */
class Allocations {
 public:
  Allocations(Stock& stock, const GraphPools& graphs, FrontUpkeep& upkeep)
      : stock_(stock), graphs_(graphs), upkeep_(upkeep) {}

  /** @throws std::invalid_argument, in the name of `call`: `address` is not a live allocation */
  [[nodiscard]] Block* find(const char* call, const void* address) const;
  /**
   * @brief The same, claimed: another thread that frees it meanwhile is refused. A thread that
   * keeps it in a front changes its state under the front's lock.
   */
  Block* claim(const char* call, void* address);
  /** @brief All, or none: one that is named twice is not live any more the second time. */
  [[nodiscard]] std::vector<Block*> claim(std::span<void* const> addresses);

  /**
   * @brief Made when another stream than the owner uses the block; one of its front's spare ones,
   * if it has any.
   */
  Company& company_of(Block& block);
  /** @brief Notes that `stream` uses the block. False: it was noted, or owns the block. */
  bool add_use(Block& block, StreamRef stream);
  void transfer(Block& block, StreamRef new_owner);

 private:
  Stock& stock_;
  const GraphPools& graphs_;
  FrontUpkeep& upkeep_;
};

}  // namespace millrace
