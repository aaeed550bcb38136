#pragma once

#include "memory/caching/completions.hpp"
#include "memory/caching/freeing.hpp"
#include "memory/caching/range_pages.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/graph/graph_pools.hpp"

namespace millrace {

/** @brief Gives all memory back, also live blocks, when the allocator is destroyed. */
class Closing {
 public:
  Closing(Stock& stock, const GraphPools& graphs, Completions& completions, const Freeing& freeing,
          RangePages& range_pages)
      : stock_(stock),
        graphs_(graphs),
        completions_(completions),
        freeing_(freeing),
        range_pages_(range_pages) {}

  /**
   * @brief Waits on the host for all work, then releases every segment and range.
   *
   * If a capture forbids the synchronization, segments that may still be in use stay reserved.
   */
  void release_everything(Lock& lock);

 private:
  bool await_all(const Segment& segment, Lock& lock);
  [[nodiscard]] PointSet points_of(const Segment& segment) const;
  [[nodiscard]] bool used_by_graphs(const Segment& segment) const;

  Stock& stock_;
  const GraphPools& graphs_;
  Completions& completions_;
  const Freeing& freeing_;
  RangePages& range_pages_;
};

}  // namespace millrace
