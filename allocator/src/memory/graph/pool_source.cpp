#include "memory/graph/pool_source.hpp"

#include <algorithm>

namespace millrace {

void* PoolSource::acquire(std::size_t bytes) {
  GraphMemory::Effort effort{};
  {
    const std::lock_guard lock{mutex_};
    if (void* const base = unpark(bytes)) return base;
    effort = effort_;
  }
  void* const base = memory_.take(bytes, pool_, effort);
  if (base == nullptr) {
    throw DeviceError{ErrorCode::out_of_memory, "acquire", "for a graph pool"};
  }
  hold({base, bytes, false});
  return base;
}

void PoolSource::add(std::size_t bytes) {
  void* const base = memory_.take(bytes, pool_, GraphMemory::Effort::pressed);
  hold({base, bytes, true});
}

void PoolSource::hold(const Segment& segment) {
  try {
    const std::lock_guard lock{mutex_};
    segments_.push_back(segment);
  } catch (...) {
    memory_.give_back(segment.base, {});  // no work has used it
    throw;
  }
}

// Takes the smallest parked segment that is large enough. Called under the lock.
void* PoolSource::unpark(std::size_t bytes) {
  Segment* best = nullptr;
  for (Segment& segment : segments_) {
    const bool fits = segment.parked && segment.bytes >= bytes;
    if (fits && (best == nullptr || segment.bytes < best->bytes)) best = &segment;
  }
  if (best == nullptr) return nullptr;
  best->parked = false;
  return best->base;
}

// Called under the lock.
PoolSource::Segment* PoolSource::find(const void* base) {
  const auto it = std::ranges::find(segments_, base, &Segment::base);
  return it == segments_.end() ? nullptr : &*it;
}

void PoolSource::release(void* base, std::size_t) {
  PointSet after;
  {
    const std::lock_guard lock{mutex_};
    Segment* const segment = find(base);
    if (!segment->leaving) {
      // Graphs may still use the segment, so the pool keeps it.
      segment->parked = true;
      return;
    }
    after = take_out(segment);
  }
  memory_.give_back(base, after);
}

// Removes the segment, and returns what must come before its next use. Called under the lock.
PointSet PoolSource::take_out(const Segment* segment) {
  PointSet after;
  after.assign(after_);
  segments_.erase(segments_.begin() + (segment - segments_.data()));
  return after;
}

PoolSource::GivingBack::GivingBack(PoolSource& source, const PointSet& points) : source_(source) {
  const std::lock_guard lock{source_.mutex_};
  source_.after_.assign(points);
}

PoolSource::GivingBack::~GivingBack() {
  const std::lock_guard lock{source_.mutex_};
  for (Segment& segment : source_.segments_) segment.leaving = false;
}

void PoolSource::GivingBack::release(void* base) {
  PointSet after;
  {
    const std::lock_guard lock{source_.mutex_};
    Segment* const segment = source_.find(base);
    if (segment == nullptr) return;
    segment->leaving = true;
    if (!segment->parked) return;
    after = source_.take_out(segment);
  }
  source_.memory_.give_back(base, after);
}

void PoolSource::set_effort(GraphMemory::Effort effort) {
  const std::lock_guard lock{mutex_};
  effort_ = effort;
}

std::vector<void*> PoolSource::segments() const {
  const std::lock_guard lock{mutex_};
  std::vector<void*> bases;
  for (const Segment& segment : segments_) bases.push_back(segment.base);
  return bases;
}

std::vector<void*> PoolSource::acquired() {
  const std::lock_guard lock{mutex_};
  std::vector<void*> acquired;
  for (const Segment& segment : segments_) {
    if (segment.is_new) acquired.push_back(segment.base);
  }
  for (Segment& segment : segments_) segment.is_new = false;
  return acquired;
}

std::size_t PoolSource::bytes() const {
  const std::lock_guard lock{mutex_};
  std::size_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

}  // namespace millrace
