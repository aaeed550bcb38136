#pragma once

#include <cstddef>
#include <optional>

#include "memory/caching/allowance.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/** @brief PyTorch's expandable segments: chooses free blocks and maps pages as PyTorch does. */
class Expandable {
 public:
  Expandable(Stock& stock, const Reports& reports, FreeBlocks& free_blocks, Allowance& allowance)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks), allowance_(allowance) {}

  /**
   * @brief Returns whether the policy has expandable segments, and the source has ranges to map in.
   */
  [[nodiscard]] bool serves() const noexcept;
  /**
   * @brief Returns the block that PyTorch takes. It starts with the best fit, and moves to the next
   *        larger block while that can grow to fewer bytes.
   */
  [[nodiscard]] static Block* least_growable(const Shelf& shelf, Block* best);
  /**
   * @brief Maps pages until a block serves. Drops the lock for calls of the source.
   * @return the block, claimed; nullptr if the device or the limit refused, or no range has room.
   *         Memory that was mapped before stays, as free blocks.
   */
  Block* grow(const Request& request, Lock& lock);
  /**
   * @brief Returns whether the source has refused a range. Ordinary segments then serve requests
   *        that find no gap.
   */
  [[nodiscard]] bool lacks_addresses() const noexcept { return lacks_addresses_; }

 private:
  /** Addresses of a range in which memory may be mapped. */
  struct Gap {
    Segment* range = nullptr;
    Block* first = nullptr;  // the free block directly before the gap; nullptr: none
    Block* hole = nullptr;   // nullptr: the gap is after the last block
    std::size_t bytes = 0;   // to map; 0: `first` is large enough
  };

  [[nodiscard]] std::optional<Gap> find_gap(const Request& request) const;
  [[nodiscard]] static std::optional<Gap> gap_at(const Request& request, Segment& range,
                                                 Block* hole);
  bool add_range(const Request& request, Lock& lock);
  Block* map(const Gap& gap, Lock& lock);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  Allowance& allowance_;
  bool lacks_addresses_ = false;
};

}  // namespace millrace
