#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <numeric>

namespace millrace {

/** @brief Requests to a segment source that have not ended yet, the oldest first. */
class Growths {
 public:
  using Growth = std::list<std::size_t>::iterator;

  Growth begin(std::size_t bytes) { return under_way_.insert(under_way_.end(), bytes); }
  void end(Growth growth) { under_way_.erase(growth); }

  /** @brief Returns the bytes of all of them. */
  [[nodiscard]] std::size_t bytes() const { return up_to(under_way_.end()); }
  /** @brief Returns the bytes of `growth` and of all that began before it. */
  [[nodiscard]] std::size_t bytes_up_to(Growth growth) const { return up_to(std::next(growth)); }

 private:
  [[nodiscard]] std::size_t up_to(std::list<std::size_t>::const_iterator end) const {
    return std::accumulate(under_way_.begin(), end, std::size_t{0});
  }

  std::list<std::size_t> under_way_;  // at most one for each thread
};

}  // namespace millrace
