#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace millrace {

/** @brief A block that lives from `lower` up to, but not at, `upper`. Units of time are the
 * caller's. */
struct Interval {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  std::uint64_t bytes = 0;
};

/**
 * @brief LOAD: the most bytes that live at one moment. No allocator needs less; with blocks that
 * cannot move, three times as much is always enough (Buchsbaum et al., 10.1137/S0097539703423941).
 * O(n log n).
 */
[[nodiscard]] std::uint64_t max_load(std::span<const Interval> intervals);

/** @brief An offline placement: where each item begins, and the end of the highest. */
struct Packing {
  std::vector<std::uint64_t> offsets;  ///< in the order of the items
  std::uint64_t height = 0;
};

/**
 * @brief Places the largest block first, each at the lowest offset where no block that lives at the
 * same time is; of equal blocks the one that lives longer first, then the one that begins earlier.
 * For traces of deep learning this comes within 2% of LOAD, for hard instances within 40%.
 *
 * Time is O(n k log k) for blocks that overlap k others in time, and at worst O(n^2): 20,000 blocks
 * take half a second, 100,000 between one second and fifteen.
 */
[[nodiscard]] Packing greedy_pack(std::span<const Interval> intervals);

namespace detail {

struct PlacedItem {
  std::uint64_t offset;
  std::uint64_t end;
  std::size_t index;
};

/** What is placed already, by offset: in short runs, so that inserting moves little. */
class PlacedItems {
 public:
  /** The lowest offset with `bytes` free, if items for which `blocks` is true must be avoided. */
  template <typename Blocks>
  [[nodiscard]] std::uint64_t lowest_gap(std::uint64_t bytes, Blocks&& blocks) const {
    std::uint64_t offset = 0;
    for (const auto& run : runs_) {
      for (const PlacedItem& item : run) {
        if (item.offset >= offset + bytes) return offset;
        if (item.end > offset && blocks(item.index)) offset = item.end;
      }
    }
    return offset;
  }

  void insert(PlacedItem item);

 private:
  std::vector<std::vector<PlacedItem>> runs_;
};

}  // namespace detail

/**
 * @brief As above, for items of which any two may conflict.
 * @param bytes      of each item; their sum must fit in 64 bits
 * @param conflicts  `bool(std::size_t a, std::size_t b)`: whether items a and b may not share
 * memory; symmetric. Called at most n^2 / 2 times.
 */
template <typename Conflicts>
[[nodiscard]] Packing greedy_pack(std::span<const std::uint64_t> bytes, Conflicts&& conflicts) {
  std::vector<std::size_t> order(bytes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return bytes[i]; });

  Packing packing{.offsets = std::vector<std::uint64_t>(bytes.size()), .height = 0};
  detail::PlacedItems placed;
  for (const std::size_t item : order) {
    if (bytes[item] == 0) continue;
    const std::uint64_t offset =
        placed.lowest_gap(bytes[item], [&](std::size_t other) { return conflicts(item, other); });
    placed.insert({offset, offset + bytes[item], item});
    packing.offsets[item] = offset;
    packing.height = std::max(packing.height, offset + bytes[item]);
  }
  return packing;
}

}  // namespace millrace
