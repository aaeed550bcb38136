#pragma once

#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/graph/graph_pools.hpp"

namespace millrace {

/**
 * @brief Records the use of small blocks by one other stream, and frees them, as long as their
 *        stream's front can do that alone.
 *
 * Such a freed block waits in the front until its stream is ordered after the use by the other
 * stream. Only with a policy that has fronts.
 */
class QuickUses {
 public:
  QuickUses(Stock& stock, const GraphPools& graphs) : stock_(stock), graphs_(graphs) {}

  // Without the allocator's lock.
  /**
   * @brief Records that `stream` uses the block.
   * @return false: record it under the allocator's lock
   */
  [[nodiscard]] bool record_use(void* address, StreamRef stream);
  /**
   * @brief Frees a block with recorded uses on its owner's stream, which is the front's.
   * @return yes, no, or marked: the block is claimed and has its points; free it under the lock
   */
  Kept keep(Front& front, Block* block);

  // Under the allocator's lock.
  /**
   * @brief Lets a freed block, which has its points and is counted, wait in its stream's front
   *        until the stream is ordered after the use by the other stream.
   * @return false: put the block on a shelf
   */
  bool wait(Block* block);

 private:
  [[nodiscard]] bool may_wait(const Block& block) const noexcept;
  [[nodiscard]] bool claim(Front& front, Block* block, StreamRef& used) const;
  void mark(Block* block, StreamRef used);
  [[nodiscard]] bool keep_marked(Front& front, Block* block);

  Stock& stock_;
  const GraphPools& graphs_;
};

}  // namespace millrace
