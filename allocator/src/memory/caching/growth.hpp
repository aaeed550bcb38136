#pragma once

#include <cstddef>

#include "memory/caching/allowance.hpp"
#include "memory/caching/expandable.hpp"
#include "memory/caching/giving_back.hpp"
#include "memory/caching/lean_limit.hpp"
#include "memory/caching/ranges.hpp"
#include "memory/caching/reports.hpp"
#include "memory/caching/request.hpp"
#include "memory/caching/stock.hpp"
#include "memory/caching/unlocked.hpp"

namespace millrace {

/**
 * @brief Gets new memory, and decides how much: in a range, or as a new segment. Called under the
 *        lock, which is dropped for calls of the source.
 */
class Growth {
 public:
  Growth(Stock& stock, const Reports& reports, Allowance& allowance, Ranges& ranges,
         Expandable& expandable, GivingBack& giving_back)
      : stock_(stock),
        reports_(reports),
        allowance_(allowance),
        ranges_(ranges),
        expandable_(expandable),
        giving_back_(giving_back),
        limit_(stock) {}

  /**
   * @brief Maps the missing memory in a range. Otherwise acquires a segment of the size that the
   *        policy prefers, and if that is refused, of the needed size.
   * @return a claimed block; nullptr if the device or the limit refused
   */
  Block* grow(const Request& request, Lock& lock);
  /**
   * @brief Gets memory for `reserve`, in the stream's range or as a segment of its own: no more
   *        than the request, rounded up.
   */
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
  LeanLimit limit_;
};

}  // namespace millrace
