#pragma once

#include <span>
#include <vector>

#include "memory/caching/freeing.hpp"
#include "memory/caching/quick_path.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/** @brief Frees many blocks in one call. A stream that used several of them is marked once. */
class BatchFreeing {
 public:
  BatchFreeing(const Stock& stock, QuickPath& quick, Freeing& freeing)
      : stock_(stock), quick_(quick), freeing_(freeing) {}

  /**
   * @brief Frees claimed blocks that were live. If it throws, the blocks that it has not freed are
   *        live again.
   * @param blocks  entries of blocks that a front keeps become nullptr
   * @param stream  where the blocks are freed; nullptr: on each block's owner
   */
  void free_on(std::span<Block*> blocks, const StreamRef* stream, Lock& lock);

 private:
  [[nodiscard]] std::vector<PointSet> points_of_frees(std::span<Block* const> blocks,
                                                      const StreamRef* stream, Lock& lock);
  void free_claimed(Block* block, const StreamRef* stream, PointSet& points);

  const Stock& stock_;
  QuickPath& quick_;
  Freeing& freeing_;
};

}  // namespace millrace
