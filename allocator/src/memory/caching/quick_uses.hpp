#pragma once

#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/graph/graph_pools.hpp"

namespace millrace {

/**
 * @brief Small blocks that one other stream uses as well, as long as only their stream's front has
 *        to know.
 *
 * Such a freed block waits in the front until its stream is ordered after the other one's use.
 */
class QuickUses {
 public:
  QuickUses(Stock& stock, const GraphPools& graphs) : stock_(stock), graphs_(graphs) {}

  // Without the allocator's lock.
  /** @brief False: the use is to be recorded under the allocator's lock. */
  [[nodiscard]] bool record_use(void* address, StreamRef stream);
  /**
   * @brief Frees a block with company on its owner's stream, which is the front's.
   * @return yes, no, or marked: it is claimed and has its points, and is to be freed under the lock
   */
  Kept keep(Front& front, Block* block);

  // Under it.
  /**
   * @brief A freed block of which the meter knows, with its points: it serves its stream again once
   *        that has passed what another stream did with it. False: it is put where all streams see
   *        it.
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
