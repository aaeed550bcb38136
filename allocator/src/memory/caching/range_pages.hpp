#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "memory/caching/completions.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/stale_pages.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/** @brief Whole pages of free blocks in growable ranges: they are what can be given back. */
class RangePages {
 public:
  RangePages(Stock& stock, const Reports& reports, FreeBlocks& free_blocks,
             Completions& completions, StalePages& stale)
      : stock_(stock),
        reports_(reports),
        free_blocks_(free_blocks),
        completions_(completions),
        stale_(stale) {}

  /** @brief Whether the addresses of a range have a whole page in them. */
  [[nodiscard]] bool has_page(const Segment& range, const std::byte* begin,
                              const std::byte* end) const;
  /**
   * @brief Keeps the last whole pages of the claimed block, at most `most` bytes; the rest is free
   *        again.
   */
  Block* keep(Block* block, std::size_t most);
  /**
   * @brief Gives back up to `most` bytes, whole pages, of what is free in a range, the last ones
   *        first.
   */
  std::size_t unmap_free(Segment& range, std::size_t most, Lock& lock);
  /**
   * @brief Gives back pages that are free, each as far as it lies in one free block.
   * @param pages  in address order
   */
  std::size_t unmap_these(std::span<const AddressRange> pages, Lock& lock);
  /** @brief As PyTorch does with ranges in which nothing is mapped any more. Other policies keep
   *         them. */
  void give_back_empty(Lock& lock);
  /** @brief At the end, when no work uses the range any more. */
  void release(const Segment& range);

 private:
  std::size_t unmap_run(Block* block, std::size_t most, Lock& lock, Block*& before);
  void unmap(Block* pages, Lock& lock);
  [[nodiscard]] std::vector<Block*> claim(std::span<const AddressRange> pages);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  Completions& completions_;
  StalePages& stale_;
};

}  // namespace millrace
