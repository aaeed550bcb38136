#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace {

/** @brief A block that lives from `lower` until just before `upper`, in any unit of time. */
struct Interval {
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  std::uint64_t bytes = 0;
};

/**
 * @brief LOAD: the maximum of the bytes that live at the same time. Takes O(n log n).
 *
 * No allocator needs less. If blocks cannot move, three times as much is always enough (Buchsbaum
 * et al., 10.1137/S0097539703423941).
 */
[[nodiscard]] std::uint64_t max_load(std::span<const Interval> intervals);

/** @brief An offline placement of blocks. */
struct Packing {
  std::vector<std::uint64_t> offsets;  ///< offset of each block, in the order of the intervals
  std::uint64_t height = 0;            ///< end of the highest block
  std::uint64_t lower_bound = 0;       ///< no packing has a smaller height

  [[nodiscard]] bool optimal() const noexcept { return height == lower_bound; }
};

/**
 * @brief Places the blocks by decreasing size, each at the lowest offset that is free during its
 *        whole life.
 *
 * Among blocks of equal size, the one that lives longer comes first, then the one that begins
 * earlier. For traces of deep learning the result is within 2% of LOAD, for hard instances within
 * 40%. The time is O(n k log k) if a block overlaps with k others, and O(n^2) at worst: 20,000
 * blocks take half a second, 100,000 blocks between one and fifteen seconds.
 */
[[nodiscard]] Packing greedy_pack(std::span<const Interval> intervals);

/** @brief How much work a packing may take, in addition to O(n log n). */
struct PackingOptions {
  /// Elementary steps of one to two nanoseconds. The result depends on this number and not on the
  /// time that the steps take.
  std::uint64_t steps = 1'500'000'000;
};

/**
 * @brief The lowest of several packings: online best fit, and first fit in four orders (by size, by
 *        length of life, and by bytes x time, largest first).
 *
 * The first order takes at most 5 * 10^8 + 32 n log n steps, each other order at most 2 * 10^8, and
 * all together at most the steps of the options. Blocks that an order has not reached by then (the
 * smallest ones) are placed above the others, by online best fit. If the first order takes more
 * than 10^8 steps, the other three are not tried.
 */
[[nodiscard]] Packing quick_pack(std::span<const Interval> intervals,
                                 const PackingOptions& options = {});

/**
 * @brief The lowest packing that can be found within the steps; never higher than `quick_pack`.
 *
 * - `quick_pack` gives a first height. If its steps are not enough for first fit (more than about
 *   10^5 blocks that overlap with hundreds of others), the search ends here.
 * - A search then looks for a packing with height LOAD. If it fails, it halves the range between
 *   the best height found and the last one that failed. Blocks that always fit into a gap, and
 *   spans of time without a common block, are separated first (MiniMalloc,
 *   10.1145/3623278.3624752).
 *
 * The result is `optimal()` if its height is proven to be a lower bound. The hard instances of
 * MiniMalloc, ResNet-50, and recorded training steps are packed at LOAD within seconds.
 */
[[nodiscard]] Packing best_pack(std::span<const Interval> intervals,
                                const PackingOptions& options = {});

}  // namespace millrace
