#pragma once

#include <cstddef>

#include "memory/caching/allowance.hpp"
#include "memory/caching/completions.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/front_upkeep.hpp"
#include "memory/caching/giving_turn.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/range_pages.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"
#include "memory/move_patience.hpp"

namespace millrace {

/** @brief Which free memory goes back to the device, and in which order. */
class GivingBack {
 public:
  GivingBack(Stock& stock, const Reports& reports, FreeBlocks& free_blocks,
             Completions& completions, FrontUpkeep& upkeep, HeldFrees& held,
             const Allowance& allowance, RangePages& range_pages)
      : stock_(stock),
        reports_(reports),
        free_blocks_(free_blocks),
        completions_(completions),
        upkeep_(upkeep),
        held_(held),
        allowance_(allowance),
        range_pages_(range_pages) {}

  /** @brief Keeps other threads from giving memory back, until it is destroyed. */
  [[nodiscard]] GivingOrder::Turn turn(Lock& lock) { return {order_, lock}; }

  /**
   * @brief Segments that are wholly free, and of ranges what is free, until that is `enough`; what
   *        was reserved by the user last.
   * @return bytes that went back
   */
  std::size_t release_free_memory(std::size_t keep_bytes, std::size_t enough, Lock& lock);
  /** @brief The segment or range at `base`, if it is wholly free. False if it is not. */
  bool release_if_free(std::byte* base, Lock& lock);
  /**
   * @brief PyTorch's garbage collection: idle segments, oldest first, until reserved is below the
   *        threshold.
   */
  void collect_old_segments(const Request& request, Lock& lock);
  /**
   * @brief Wholly free segments that are too small for the request, up to `most` bytes of them:
   * what then grows is so much less. Segments cannot be moved as pages are, so that this is their
   *        way.
   * @return whether it tried: the lock may have been dropped then
   */
  bool give_back_too_small(const Request& request, std::size_t most, Lock& lock);

 private:
  /** As Policy::moved_before_growth, for segments: giving one back may make the device wait. */
  static constexpr double kGivenBackBeforeGrowth = 1.0 / 256;

  std::size_t release_free_segments(std::size_t keep_bytes, std::size_t enough, bool kept,
                                    Lock& lock);
  bool release_range_if_free(Segment& range, Lock& lock);
  void release(Block* whole, Lock& lock);
  [[nodiscard]] const Segment* oldest_free_segment() const;
  [[nodiscard]] const Segment* largest_complete_below(std::size_t bytes) const;

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  Completions& completions_;
  FrontUpkeep& upkeep_;
  HeldFrees& held_;
  const Allowance& allowance_;
  RangePages& range_pages_;
  MovePatience give_back_patience_{kGivenBackBeforeGrowth};
  GivingOrder order_;
};

}  // namespace millrace
