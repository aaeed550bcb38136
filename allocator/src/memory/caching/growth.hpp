#pragma once

#include <cstddef>

#include "memory/caching/allowance.hpp"
#include "memory/caching/expandable.hpp"
#include "memory/caching/giving_back.hpp"
#include "memory/caching/ranges.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/** @brief New memory, and how much of it: in a range, or in a new segment. */
class Growth {
 public:
  Growth(Stock& stock, const Reports& reports, Allowance& allowance, Ranges& ranges,
         Expandable& expandable, GivingBack& giving_back)
      : stock_(stock),
        reports_(reports),
        allowance_(allowance),
        ranges_(ranges),
        expandable_(expandable),
        giving_back_(giving_back) {}

  /**
   * @brief What is missing, in a range; else a new segment of the size that the policy likes, or
   *        else of the size that is needed.
   * @return a claimed block; nullptr: the device or the limit said no
   */
  Block* grow(const Request& request, Lock& lock);
  /** @brief In the stream's range, or as a segment of its own: never more than was asked for. */
  Block* grow_reserve(const Request& request, Lock& lock);

 private:
  [[nodiscard]] std::size_t small_segment() const;
  [[nodiscard]] std::size_t shared_segment(const Request& request);
  [[nodiscard]] std::size_t roomy_segment(std::size_t needed, std::size_t multiple) const;
  Block* acquire(std::size_t bytes, const Request& request, Lock& lock);

  Stock& stock_;
  const Reports& reports_;
  Allowance& allowance_;
  Ranges& ranges_;
  Expandable& expandable_;
  GivingBack& giving_back_;
};

}  // namespace millrace
