#include "memory/caching/closing.hpp"

namespace millrace {

// As the allocator goes. While a stream is captured the device cannot be synchronized as a whole:
// a segment then stays reserved if the host cannot wait for all that used it.
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

// Points of the segment's blocks. Live blocks are freed now.
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

// Their launches are known to the device alone.
bool Closing::used_by_graphs(const Segment& segment) const {
  for (const Block* block = segment.first; block != nullptr; block = block->next) {
    if (block->state == BlockState::live && graphs_.may_use(block->address)) return true;
  }
  return false;
}

}  // namespace millrace
