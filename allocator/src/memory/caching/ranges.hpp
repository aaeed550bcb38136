#pragma once

#include <cstddef>
#include <optional>

#include "memory/backoff.hpp"
#include "memory/caching/allowance.hpp"
#include "memory/caching/free_blocks.hpp"
#include "memory/caching/giving_back.hpp"
#include "memory/caching/held_frees.hpp"
#include "memory/caching/moved_pages.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stale_pages.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/**
 * @brief Growable ranges: decides where in them a request's memory is mapped, and maps it. Called
 *        under the lock, which is dropped for calls of the source.
 */
class Ranges {
 public:
  Ranges(Stock& stock, const Reports& reports, FreeBlocks& free_blocks, HeldFrees& held,
         Allowance& allowance, StalePages& stale, MovedPages& moved_pages, GivingBack& giving_back)
      : stock_(stock),
        reports_(reports),
        free_blocks_(free_blocks),
        held_(held),
        allowance_(allowance),
        stale_(stale),
        moved_pages_(moved_pages),
        giving_back_(giving_back) {}

  /** @brief Returns whether the request is served by ranges. */
  [[nodiscard]] bool serve(const Request& request) const;
  /**
   * @brief Maps the missing memory in a range of the request's stream if possible, otherwise in
   *        another range.
   * @return a claimed block; nullptr if the device or the limit refused, or no range has addresses
   */
  Block* grow(const Request& request, Lock& lock);

 private:
  /** Addresses of a range in which memory may be mapped. */
  struct Gap {
    Segment* range = nullptr;
    Block* first = nullptr;  // first free block before the gap that joins it; nullptr: none
    Block* hole = nullptr;   // nullptr: after the last block; a stale block is unmapped first
    std::size_t bytes = 0;   // to map
  };

  std::optional<Gap> find_gap(const Request& request, Lock& lock);
  std::optional<Gap> find_gap_of(const Request& request, bool stale_too, Lock& lock);
  [[nodiscard]] std::optional<Gap> least_gap(const Request& request, StreamId home,
                                             bool stale_too) const;
  [[nodiscard]] Gap gap_behind(Segment& range, Block* last, const Request& request) const;
  [[nodiscard]] std::ptrdiff_t ranges_of(StreamId home) const;
  bool add_range(const Request& request, Lock& lock);
  Block* map(const Request& request, const Gap& gap, Lock& lock);

  Stock& stock_;
  const Reports& reports_;
  FreeBlocks& free_blocks_;
  HeldFrees& held_;
  Allowance& allowance_;
  StalePages& stale_;
  MovedPages& moved_pages_;
  GivingBack& giving_back_;
  Backoff range_refusals_;  // of ranges by the source
};

}  // namespace millrace
