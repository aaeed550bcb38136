#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"
#include "millrace/observe/conflict_graph.hpp"

namespace millrace {

/** @brief Blocks of one tag and one stream. */
struct LadderShare {
  std::string tag;
  StreamId stream;     ///< the owner
  StreamId waits_for;  ///< freed, but work on this stream may still use it; invalid: live
  std::size_t blocks = 0;
  std::size_t bytes = 0;
  std::size_t requested = 0;  ///< of these bytes, those that were asked for
};

/**
 * @brief Where reserved memory went: requested <= rounded <= ordered <= packed <= reserved.
 *
 * All in bytes, over one window of a trace. Each step is what one thing costs:
 * - `requested` (L0): peak of live bytes as asked for
 * - `rounded`   (L1): peak of live block bytes; the step is the cost of rounding
 * - `ordered`   (L2): heaviest set of blocks that could not have shared memory; the step is the
 * cost of streams: blocks freed, but not to be had by who asked next
 * - `packed`    (L3): the better of an offline packing and the layout that there was; the step is
 * the cost of blocks in one piece
 * - `reserved`      : peak of segments held; the step is the cost of deciding without the future,
 * and of keeping memory that nobody uses
 */
struct Ladder {
  std::size_t requested = 0;
  std::size_t rounded = 0;
  std::size_t ordered = 0;
  std::size_t packed = 0;
  std::size_t reserved = 0;

  std::vector<LadderShare> at_peak;   ///< what was live at the peak of `rounded`
  std::vector<LadderShare> heaviest;  ///< what `ordered` consists of; `waits_for` says why
  std::vector<LadderShare> idle;      ///< held but free at that peak, by who had it last

  [[nodiscard]] std::size_t rounding() const noexcept { return rounded - requested; }
  [[nodiscard]] std::size_t streams() const noexcept { return ordered - rounded; }
  [[nodiscard]] std::size_t packing() const noexcept { return packed - ordered; }
  [[nodiscard]] std::size_t policy() const noexcept { return reserved - packed; }
};

struct LadderOptions {
  TraceWindow window{};
  ReuseRule rule = ReuseRule::enqueued_work;
  bool reuse_proves_order = false;  ///< see ConflictGraph::Options
  /** For allocators whose segments are not traced (the driver's pool): their peak of reserved. It
   * is taken as a layout that there was, so no level lies above it. */
  std::optional<std::size_t> reserved{};
};

/**
 * @brief Climbs the ladder for one window of a trace.
 *
 * 50,000 allocations take about a second. Blocks outside all traced segments count as reserved at
 * their addresses, for the whole window.
 */
[[nodiscard]] Ladder attribute(const AllocationTrace& trace, const LadderOptions& options = {});

}  // namespace millrace
