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

/** @brief PyTorch's expandable segments: which free block grows least, and what is mapped where. */
class Expandable {
 public:
  Expandable(Stock& stock, const Reports& reports, FreeBlocks& free_blocks, Allowance& allowance)
      : stock_(stock), reports_(reports), free_blocks_(free_blocks), allowance_(allowance) {}

  /** @brief Whether the policy has them, and the source ranges to map in. */
  [[nodiscard]] bool serves() const noexcept;
  /**
   * @brief The block that PyTorch takes. It starts with the best fit, and goes on while the next
   *        larger block has less room to grow.
   */
  [[nodiscard]] static Block* least_growable(const Shelf& shelf, Block* best);
  /**
   * @brief Maps pages until a block serves.
   * @return it, claimed; nullptr: the device or the limit refused. What was mapped before stays, as
   *         free blocks.
   */
  Block* grow(const Request& request, Lock& lock);
  /** @brief Whether a range was refused: what it would have served is for ordinary segments. */
  [[nodiscard]] bool lacks_addresses() const noexcept { return lacks_addresses_; }

 private:
  /** Where memory may be mapped in a range. */
  struct Gap {
    Segment* range = nullptr;
    Block* first = nullptr;  // the free block in front of it; nullptr: there is none
    Block* hole = nullptr;   // nullptr: after the last block
    std::size_t bytes = 0;   // that are missing there; 0: `first` serves
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
