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

/**
 * @brief Finds whole pages of free blocks in growable ranges, and gives them back. Called under the
 *        lock, which is dropped for calls of the source.
 */
class RangePages {
 public:
  RangePages(Stock& stock, const Reports& reports, FreeBlocks& free_blocks,
             Completions& completions, StalePages& stale)
      : stock_(stock),
        reports_(reports),
        free_blocks_(free_blocks),
        completions_(completions),
        stale_(stale) {}

  /**
   * @brief Returns whether the addresses from `begin` to `end` contain a whole page of the range.
   */
  [[nodiscard]] bool has_page(const Segment& range, const std::byte* begin,
                              const std::byte* end) const;
  /**
   * @brief Keeps the last whole pages of the claimed block, at most `most` bytes. The rest is free
   *        again.
   * @return the pages, claimed; nullptr if the block contains no whole page
   */
  Block* keep(Block* block, std::size_t most);
  /**
   * @brief Gives back whole free pages of a range, at most `most` bytes, the last ones first. The
   *        host waits for their uses.
   * @return bytes that went back
   */
  std::size_t unmap_free(Segment& range, std::size_t most, Lock& lock);
  /**
   * @brief Gives back these pages, each if it lies in one free block. The host waits for their
   *        uses.
   * @param pages  in address order
   * @return bytes that went back
   */
  std::size_t unmap_these(std::span<const AddressRange> pages, Lock& lock);
  /**
   * @brief Gives back ranges in which nothing is mapped, with `expandable_segments` (as PyTorch
   *        does). Other policies keep them.
   */
  void give_back_empty(Lock& lock);
  /**
   * @brief Unmaps all memory of the range and gives its addresses back, when the allocator is
   *        destroyed and no work uses the range.
   */
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
