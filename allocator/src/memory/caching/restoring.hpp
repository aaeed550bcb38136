#pragma once

#include <span>

#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/stock.hpp"
#include "millrace/memory/caching_allocator.hpp"

namespace millrace {

/**
 * @brief Gives an allocator without memory the segments and ranges of another one. Callers hold the
 *        lock.
 */
class Restoring {
 public:
  using SegmentLayout = CachingAllocator::SegmentLayout;
  using RangeLayout = CachingAllocator::RangeLayout;

  Restoring(Stock& stock, const Reports& reports, FreeBlocks& free_blocks, FrontUpkeep& upkeep)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks), upkeep_(upkeep) {}

  /** @brief Does what CachingAllocator::restore describes. */
  void restore(std::span<const SegmentLayout> segments, std::span<const RangeLayout> ranges);

 private:
  void restore_blocks(const SegmentLayout& segment, Block* rest);
  void restore_range(const RangeLayout& range, std::span<const SegmentLayout* const> inside);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  FrontUpkeep& upkeep_;
};

}  // namespace millrace
