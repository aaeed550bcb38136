#include "memory/graph/pool_source.hpp"

#include <algorithm>
#include <utility>

#include "millrace/memory/out_of_memory.hpp"

namespace millrace {

void* PoolSource::acquire(std::size_t bytes) {
  GraphMemory::Effort effort{};
  {
    const std::lock_guard lock{mutex_};
    if (void* const base = unpark(bytes)) return base;
    effort = effort_;
    // Nothing more than what is needed is asked for then, and only once.
    const bool too_much = pressed_ != 0 && bytes > pressed_;
    if (failure_ != nullptr || too_much) {
      throw DeviceError{ErrorCode::out_of_memory, "acquire", "for a graph pool"};
    }
    if (pressed_ != 0) effort = GraphMemory::Effort::pressed;
  }
  void* base = nullptr;
  try {
    base = memory_.take(bytes, pool_, effort);
  } catch (const out_of_memory&) {
    const std::lock_guard lock{mutex_};
    failure_ = std::current_exception();
  }
  if (base == nullptr) {
    throw DeviceError{ErrorCode::out_of_memory, "acquire", "for a graph pool"};
  }
  const std::lock_guard lock{mutex_};
  segments_.push_back({base, bytes, false});
  acquired_.push_back(base);
  return base;
}

// The least that is large enough. Under the lock.
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

void PoolSource::release(void* base, std::size_t) {
  {
    const std::lock_guard lock{mutex_};
    const auto it = std::ranges::find(segments_, base, &Segment::base);
    if (!gives_back_) {
      it->parked = true;
      return;
    }
    segments_.erase(it);
  }
  memory_.give_back(base, points_);
}

void PoolSource::set_effort(GraphMemory::Effort effort) {
  const std::lock_guard lock{mutex_};
  effort_ = effort;
}

void PoolSource::press(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  pressed_ = (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

std::exception_ptr PoolSource::relax() {
  const std::lock_guard lock{mutex_};
  pressed_ = 0;
  return std::exchange(failure_, nullptr);
}

void PoolSource::give_back_after(const PointSet& points) {
  const std::lock_guard lock{mutex_};
  points_.assign(points);
  gives_back_ = true;
}

bool PoolSource::give_back_parked(void* base) {
  {
    const std::lock_guard lock{mutex_};
    const auto it = std::ranges::find(segments_, base, &Segment::base);
    if (it == segments_.end() || !it->parked) return false;
    segments_.erase(it);
  }
  memory_.give_back(base, points_);
  return true;
}

void PoolSource::keep() {
  const std::lock_guard lock{mutex_};
  gives_back_ = false;
}

std::vector<void*> PoolSource::acquired() {
  const std::lock_guard lock{mutex_};
  return std::exchange(acquired_, {});
}

std::vector<void*> PoolSource::parked() const {
  const std::lock_guard lock{mutex_};
  std::vector<void*> parked;
  for (const Segment& segment : segments_) {
    if (segment.parked) parked.push_back(segment.base);
  }
  return parked;
}

std::size_t PoolSource::bytes() const {
  const std::lock_guard lock{mutex_};
  std::size_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

}  // namespace millrace
