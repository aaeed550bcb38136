#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/observe/packing.hpp"
#include "observe/packing/placed_lives.hpp"
#include "observe/packing/steps.hpp"

namespace millrace::packing {

/** Returns the lives of intervals: their times as ranks. */
[[nodiscard]] std::vector<Life> ranked(std::span<const Interval> intervals);

/** Places lives one after the other, each as low as the lives placed before allow. */
class LowestFit {
 public:
  explicit LowestFit(std::span<const Life> lives)
      : lives_{lives}, places_(lives.size()), by_time_{lives} {}

  Place put(std::size_t item, std::uint64_t bytes, Steps& steps);
  Place put_at(std::size_t item, const Place& place);

 private:
  [[nodiscard]] std::uint64_t gap_between_few(std::uint64_t bytes, const Life& life, Steps& steps);

  std::span<const Life> lives_;
  std::vector<Place> places_;
  ByTime by_time_;
  ByOffset by_offset_;
  std::size_t placed_ = 0;
  std::vector<Place> few_;
};

struct LowestPacking {
  Packing packing;     ///< of the blocks placed so far
  std::size_t placed;  ///< number of items, from the first in the order
};

/** Places intervals in the given order, each as low as the intervals placed before allow, until all
 * are placed or the steps are spent. */
[[nodiscard]] LowestPacking pack_lowest(std::span<const Interval> intervals,
                                        std::span<const std::size_t> order, Steps& steps);

}  // namespace millrace::packing
