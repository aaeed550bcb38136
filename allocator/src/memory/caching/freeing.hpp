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

/**
 * @brief Computes the points of a freed block, and puts the block where later requests find it.
 *        Callers hold the lock.
 */
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
   * @brief Frees a claimed block on `stream`. If it throws, the block is live again; if an observer
   *        throws, it is free.
   *
   * A block that graphs use stays live. Its streams with recorded uses are marked all the same, if
   * they exist. Drops the lock for the marks.
   * @param given  true: the caller named `stream` in this call, so the stream exists
   */
  void free_on(Block* block, StreamRef stream, bool given, Lock& lock);
  /**
   * @brief Makes the claimed block live again if graphs use it, and keeps it for them.
   * @param points  what must come before its next use
   * @return false if no graph uses the block
   */
  [[nodiscard]] bool kept_for_graphs(Block* block, PointSet& points);
  /**
   * @brief Frees a claimed block that only its lane's stream has used.
   * @return false for any other block, which is unchanged
   */
  bool free_plainly(Block* block, StreamRef stream);
  /** @brief Frees a claimed block that was live. `points`: what must come before its next use. */
  void take_back(Block* block, PointSet points) { swap_back(block, points); }

  /**
   * @brief Returns what must come before the next use of a block that is freed on `stream`.
   * @param given   as for `free_on`
   * @param used    gets the streams to mark for this free
   */
  PointSet points_of_free(const Block& block, StreamRef stream, bool given, StreamUses& used) const;
  /** @brief Marks the streams without the lock, and ignores errors of the driver. */
  void mark(const StreamUses& streams, Lock& lock);

 private:
  /** @brief The same. Replaces the points of `points`, and uses its memory. */
  void collect_points(const Block& block, StreamRef stream, bool given, StreamUses& used,
                      PointSet& points) const;
  void join_many(const StreamUses& uses, StreamId but, PointSet& points) const;
  void keep(Block* block);
  // Like `take_back`. `points` gets the points that the block had before.
  void swap_back(Block* block, PointSet& points);

  Stock& stock_;
  const Reports& reports_;
  GraphPools& graphs_;
  FreeBlocks& free_blocks_;
  Completions& completions_;
  FrontUpkeep& upkeep_;
  QuickUses& quick_uses_;
  PointSet spare_;  // reused memory: a free with recorded uses has several points
};

}  // namespace millrace
