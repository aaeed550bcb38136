#pragma once

#include <span>
#include <vector>

#include "millrace/observe/packing.hpp"

namespace millrace::packing {

/**
 * Places intervals in order of time, each into the smallest hole that fits, the lowest if there are
 * several. An allocator without knowledge of the future can do this. Takes O(n log n).
 * @param items  those to place; the others keep offset 0
 */
[[nodiscard]] Packing pack_online(std::span<const Interval> intervals,
                                  std::span<const std::size_t> items);

}  // namespace millrace::packing
