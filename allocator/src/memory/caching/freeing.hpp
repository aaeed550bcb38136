#pragma once

#include "memory/caching/completions.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/quick_uses.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/graph/graph_pools.hpp"

namespace millrace {

/** @brief What a free says, and where the freed block goes. Under the lock. */
class Freeing {
 public:
  Freeing(Stock& stock, const Reports& reports, GraphPools& graphs, FreeBlocks& free_blocks,
          Completions& completions, FrontUpkeep& upkeep, QuickUses& quick_uses)
      : stock_(stock),
        reports_(reports),
        graphs_(graphs),
        free_blocks_(free_blocks),
        completions_(completions),
        upkeep_(upkeep),
        quick_uses_(quick_uses) {}

  /**
   * @brief Frees a claimed block, which is live again if it throws.
   * @param given  the caller named the stream in this call, so that it exists
   *
   * A block that graphs use stays live; its uses are marked all the same, while their streams
   * exist.
   */
  void free_on(Block* block, StreamRef stream, bool given, Lock& lock);
  /**
   * @brief Lets graphs that use a claimed block keep it, as a live one. False: none uses it.
   * @param points  what comes before its next use
   */
  [[nodiscard]] bool kept_for_graphs(Block* block, PointSet& points);
  /** @brief Frees a claimed block that only its lane's stream has used. False: not this one. */
  bool free_plainly(Block* block, StreamRef stream);
  /** @brief Frees a claimed block that was live. */
  void take_back(Block* block, PointSet points) { swap_back(block, points); }

  /**
   * @brief What comes before the next use of a block that is freed on `stream`.
   * @param used  streams that are to be marked for it are added
   * @param memory  what the result may use; its points do not matter
   */
  PointSet points_of_free(const Block& block, StreamRef stream, bool given, StreamUses& used,
                          PointSet memory = {}) const;
  void mark(const StreamUses& streams, Lock& lock);

 private:
  void join_many(const StreamUses& uses, StreamId but, PointSet& points) const;
  // As `take_back`. `points` gets those that the block had.
  void swap_back(Block* block, PointSet& points);

  Stock& stock_;
  const Reports& reports_;
  GraphPools& graphs_;
  FreeBlocks& free_blocks_;
  Completions& completions_;
  FrontUpkeep& upkeep_;
  QuickUses& quick_uses_;
  PointSet spare_;  // memory that is used again: a free with recorded uses has several points
};

}  // namespace millrace
