#include "page/trace_reuse.hpp"

namespace millrace::cli {

PageReuse reuse_of(const OrderingHistory& ordering, const TracedBlock& block,
                   const TracedBlock& before) {
  // Work on the block's own stream always precedes the reuse.
  bool complete = true, same_stream = true, ordered = true;
  for (const Point point : before.free_points) {
    const bool own = point.stream == block.user;
    const bool is_done = ordering.completed_from(point) <= block.allocated;
    complete = complete && (own || is_done);
    same_stream = same_stream && own;
    ordered =
        ordered && (own || is_done || ordering.ordered_from(point, block.user) <= block.allocated);
  }
  if (same_stream) return PageReuse::same_stream;
  if (complete) return PageReuse::completed;
  return ordered ? PageReuse::ordered : PageReuse::unknown;
}

std::optional<ReuseEdge> edge_of(const OrderingHistory& ordering, const TracedBlock& block,
                                 const TracedBlock& before) {
  std::optional<ReuseEdge> last;
  for (const Point point : before.free_points) {
    const TracePosition waited = ordering.ordered_from(point, block.user);
    if (point.stream == block.user || waited > block.allocated) continue;
    if (ordering.completed_from(point) <= block.allocated) continue;
    if (!last || waited > last->waited) last = {point, before.freed, waited, block.user};
  }
  return last;
}

}  // namespace millrace::cli
