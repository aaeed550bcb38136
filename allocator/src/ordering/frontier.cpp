#include "millrace/ordering/frontier.hpp"

#include <algorithm>
#include <limits>

namespace millrace {
namespace {

// A frontier that is this many times smaller is added entry by entry, with a search for each.
constexpr std::size_t kFewer = 16;

std::uint32_t slot_of(Point point) { return point.stream.slot; }

}  // namespace

Marker Frontier::at(StreamId stream) const noexcept {
  const auto it = std::ranges::lower_bound(points_, stream.slot, {}, slot_of);
  if (it == points_.end() || it->stream.slot != stream.slot) return 0;
  if (it->stream.generation == stream.generation) return it->marker;
  return it->stream.generation > stream.generation ? std::numeric_limits<Marker>::max() : 0;
}

void Frontier::advance(Point point) {
  if (points_.empty() || slot_of(points_.back()) < point.stream.slot) {
    // Member by member: a copy of the whole point would wait until both halves are in memory.
    Point& last = points_.emplace_back();
    last.stream = point.stream;
    last.marker = point.marker;
    return;
  }
  advance_among(point);
}

void Frontier::advance_among(Point point) {
  const auto it = std::ranges::lower_bound(points_, point.stream.slot, {}, slot_of);
  if (it == points_.end() || it->stream.slot != point.stream.slot) {
    points_.insert(it, point);
  } else {
    *it = std::max(*it, point);
  }
}

void Frontier::join(const Frontier& other) {
  if (this == &other || other.empty()) return;
  if (empty()) {
    points_ = other.points_;
    return;
  }
  if (other.size() * kFewer < size()) {
    for (const Point theirs : other.points_) advance(theirs);
    return;
  }
  std::size_t added = 0;  // streams that are only in `other`
  auto mine = points_.begin();
  for (const Point theirs : other.points_) {
    while (mine != points_.end() && slot_of(*mine) < slot_of(theirs)) ++mine;
    if (mine != points_.end() && slot_of(*mine) == slot_of(theirs)) {
      *mine = std::max(*mine, theirs);
    } else {
      ++added;
    }
  }
  if (added > 0) insert_missing(other, added);
}

// Moves the points from the end, so that they stay within the same memory.
void Frontier::insert_missing(const Frontier& other, std::size_t count) {
  std::size_t from = points_.size();
  points_.resize(points_.size() + count);
  std::size_t to = points_.size();
  for (auto theirs = other.points_.rbegin(); to > from; ++theirs) {
    while (from > 0 && slot_of(points_[from - 1]) > slot_of(*theirs))
      points_[--to] = points_[--from];
    const bool is_there = from > 0 && slot_of(points_[from - 1]) == slot_of(*theirs);
    if (!is_there) points_[--to] = *theirs;
  }
}

}  // namespace millrace
