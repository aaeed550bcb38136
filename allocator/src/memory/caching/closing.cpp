#include "memory/caching/closing.hpp"

namespace millrace {

// The device cannot be synchronized while a stream is captured. The host then waits for the uses of
// each segment, and a segment stays reserved if the host cannot wait for all of them.
void Closing::release_everything(Lock& lock) {
  bool is_idle = true;
  try {
    stock_.device.synchronize();
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::capture) throw;
    is_idle = false;
  }
  for (const auto& [base, segment] : stock_.heap.segments()) {
    if (!is_idle && (used_by_graphs(*segment) || !await_all(*segment, lock))) continue;
    if (segment->growable()) {
      range_pages_.release(*segment);
    } else {
      stock_.source.release(base, segment->bytes);
    }
  }
}

bool Closing::await_all(const Segment& segment, Lock& lock) {
  const PointSet points = points_of(segment);
  return points.empty() || completions_.await(points, lock);
}

// Returns the points of all blocks of the segment, as if its live blocks were freed now.
PointSet Closing::points_of(const Segment& segment) const {
  PointSet points;
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::absent) continue;
    points.join(block->points);
    if (block->state != BlockState::live) continue;
    StreamUses used;
    points.join(freeing_.points_of_free(*block, block->live.owner, false, used));
  }
  return points;
}

// Only the device knows the launches of graphs, so the host cannot wait for these uses.
bool Closing::used_by_graphs(const Segment& segment) const {
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::live && graphs_.may_use(block->address)) return true;
  }
  return false;
}

}  // namespace millrace
