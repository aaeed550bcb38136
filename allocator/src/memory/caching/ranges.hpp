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

/** @brief Growable ranges: where in them a request's memory is mapped. */
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

  [[nodiscard]] bool serve(const Request& request) const;
  /** @brief In the stream's own range if that is to be had, else where there are addresses. */
  Block* grow(const Request& request, Lock& lock);

 private:
  /** @brief Where memory may be mapped in a range. */
  struct Gap {
    Segment* range = nullptr;
    Block* first = nullptr;  // of the free blocks in front of it that it makes larger; may be none
    Block* hole = nullptr;   // null: behind the last block; stale: to be unmapped first
    std::size_t bytes = 0;   // that are missing
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
  Backoff range_refusals_;  // of the source
};

}  // namespace millrace
