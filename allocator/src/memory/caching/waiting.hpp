#pragma once

#include <cstdint>
#include <optional>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/reuse.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/**
 * @brief Takes free blocks that a stream has to wait for, and decides when it gets new memory
 *        instead.
 */
class Waiting {
 public:
  Waiting(Stock& stock, FreeBlocks& free_blocks, const FrontUpkeep& upkeep, const Reuse& reuse)
      : stock_(stock), free_blocks_(free_blocks), upkeep_(upkeep), reuse_(reuse) {}

  /**
   * @brief Takes the block whose last missing marker was recorded earliest; of several, the best
   *        fit. Makes the user wait for it, without the lock.
   * @param newest  serial of the newest marker to wait for, or OrderedDevice::kTail
   * @return the block, claimed; nullptr if none serves
   */
  Block* take(const Request& request, std::uint64_t newest, Lock& lock);
  /**
   * @brief Returns the serial of the last marker that the user would wait for
   *        (OrderedDevice::kTail: a marker recorded now). Returns 0 if it need not wait, and
   *        nothing if it cannot wait.
   */
  [[nodiscard]] std::optional<std::uint64_t> earliest(const Block& block, StreamId user) const;
  /**
   * @brief Makes the user wait for the claimed block's points, without the lock.
   * @return false if the user cannot wait; the block is free again, as after an exception
   */
  bool wait_for(const Request& request, Block* block, Lock& lock);

  /**
   * @brief Returns the newest marker for which a request waits although its stream may still grow.
   */
  [[nodiscard]] std::uint64_t long_ago(const Request& request) const;
  /**
   * @brief Returns whether the stream has less than its share, so that it grows instead of waiting.
   */
  [[nodiscard]] bool should_grow(const Request& request) const;

 private:
  Stock& stock_;
  FreeBlocks& free_blocks_;
  const FrontUpkeep& upkeep_;
  const Reuse& reuse_;
};

}  // namespace millrace
