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

/** @brief Blocks that a stream can be made to wait for, and when it should rather have new memory.
 */
class Waiting {
 public:
  Waiting(Stock& stock, FreeBlocks& free_blocks, const FrontUpkeep& upkeep, const Reuse& reuse)
      : stock_(stock), free_blocks_(free_blocks), upkeep_(upkeep), reuse_(reuse) {}

  /**
   * @brief The block whose last missing marker was recorded earliest, and not after `newest`; among
   *        equals the best fit. Its user waits for it.
   */
  Block* take(const Request& request, std::uint64_t newest, Lock& lock);
  /** @brief How early the user would be let go on: 0 if it has to wait for nothing. */
  [[nodiscard]] std::optional<std::uint64_t> earliest(const Block& block, StreamId user) const;
  /** @brief Orders the user after the claimed block's points, or puts it back and returns false. */
  bool wait_for(const Request& request, Block* block, Lock& lock);

  /** @brief The newest marker that a request may wait for although its stream could still grow. */
  [[nodiscard]] std::uint64_t long_ago(const Request& request) const;
  /** @brief Whether the stream has less than its share, and need not wait. */
  [[nodiscard]] bool should_grow(const Request& request) const;

 private:
  Stock& stock_;
  FreeBlocks& free_blocks_;
  const FrontUpkeep& upkeep_;
  const Reuse& reuse_;
};

}  // namespace millrace
