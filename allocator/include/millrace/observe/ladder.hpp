#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/** @brief The blocks of one tag and one stream. */
struct LadderShare {
  std::string tag;
  StreamId stream;     ///< the owner
  StreamId waits_for;  ///< freed, but work on this stream may still use it; invalid: live
  std::size_t blocks = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;  ///< requested bytes, part of `bytes`
};

/**
 * @brief The levels between requested and reserved memory: requested <= rounded <= ordered <=
 * packed <= reserved.
 *
 * All values are in bytes, for one window of a trace. Each step is one cost:
 * - `requested` (L0): peak of the requested bytes of live blocks
 * - `rounded` (L1): peak of the bytes of live blocks. The step is the cost of rounding.
 * - `ordered` (L2): heaviest set of blocks that could not have shared memory. The step is the cost
 *   of streams: freed blocks that the next requester could not use yet.
 * - `packed` (L3): the better of an offline packing and the actual layout. The step is the cost of
 *   contiguous blocks.
 * - `reserved`: peak of the segments held. The step is the cost of not knowing the future, and of
 *   keeping unused memory.
 */
struct Ladder {
  std::size_t requested = 0;
  std::size_t rounded = 0;
  std::size_t ordered = 0;
  std::size_t packed = 0;
  std::size_t reserved = 0;

  std::vector<LadderShare> at_peak;   ///< blocks live at the peak of `rounded`
  std::vector<LadderShare> heaviest;  ///< the set of `ordered`; `waits_for`: why a block is in it
  std::vector<LadderShare> idle;      ///< free memory that was held at that peak, by last user

  [[nodiscard]] std::size_t rounding() const noexcept { return rounded - requested; }
  [[nodiscard]] std::size_t streams() const noexcept { return ordered - rounded; }
  [[nodiscard]] std::size_t packing() const noexcept { return packed - ordered; }
  [[nodiscard]] std::size_t policy() const noexcept { return reserved - packed; }
};

/** @brief Options of `attribute`. */
struct LadderOptions {
  TraceWindow window{};
  ReuseRule rule = ReuseRule::enqueued_work;
  bool reuse_proves_order = false;  ///< see ConflictGraph::Options
  /// Peak of reserved bytes, for allocators whose segments are not traced (the driver's pool). It
  /// counts as an actual layout, so no level is above it.
  std::optional<std::size_t> reserved{};
};

/**
 * @brief Computes the ladder for one window of a trace.
 *
 * 50,000 allocations take about a second. Blocks outside all traced segments count as reserved at
 * their addresses during the whole window.
 */
[[nodiscard]] Ladder attribute(const AllocationTrace& trace, const LadderOptions& options = {});

}  // namespace millrace
