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

/**
 * @brief Decides which free memory goes back to the device, and in which order. Called under the
 *        lock, which is dropped for calls of the source.
 */
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

  /** @brief Waits for the turn to give memory back. Other threads wait until it is destroyed. */
  [[nodiscard]] GivingOrder::Turn turn(Lock& lock) { return {order_, lock}; }

  /**
   * @brief Gives back wholly free segments and free pages of ranges, until `enough` bytes went
   *        back. Memory that the user reserved comes last.
   * @param keep_bytes  the reserved bytes do not fall below this
   * @return bytes that went back
   */
  std::size_t release_free_memory(std::size_t keep_bytes, std::size_t enough, Lock& lock);
  /**
   * @brief Gives back the segment, or the memory of the range, at `base` if it is wholly free.
   * @return whether it was, and the host could wait for its uses
   */
  bool release_if_free(std::byte* base, Lock& lock);
  /**
   * @brief PyTorch's garbage collection: gives back idle segments, the oldest first, until the
   *        reserved bytes plus the request are at most the threshold.
   */
  void collect_old_segments(const Request& request, Lock& lock);
  /**
   * @brief Gives back wholly free segments that are too small for the request, up to `most` bytes,
   *        so that memory grows by less. (Segments cannot be moved as pages are.)
   * @return whether it tried; the lock may then have been dropped
   */
  bool give_back_too_small(const Request& request, std::size_t most, Lock& lock);

 private:
  /** Like Policy::moved_before_growth, for segments: giving one back may make the device wait. */
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
