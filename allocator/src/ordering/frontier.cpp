#include "millrace/ordering/frontier.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace millrace {
namespace {

std::uint32_t slot_of(Point point) { return point.stream.slot; }

}  // namespace

Marker Frontier::at(StreamId stream) const noexcept {
  const auto it = std::ranges::lower_bound(points_, stream.slot, {}, slot_of);
  if (it == points_.end() || it->stream.slot != stream.slot) return 0;
  if (it->stream.generation == stream.generation) return it->marker;
  return it->stream.generation > stream.generation ? std::numeric_limits<Marker>::max() : 0;
}

void Frontier::advance(Point point) {
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
  std::vector<Point> joined;
  joined.reserve(points_.size() + other.points_.size());
  auto mine = points_.cbegin();
  for (const Point theirs : other.points_) {
    while (mine != points_.cend() && slot_of(*mine) < slot_of(theirs)) joined.push_back(*mine++);
    if (mine != points_.cend() && slot_of(*mine) == slot_of(theirs)) {
      joined.push_back(std::max(*mine++, theirs));
    } else {
      joined.push_back(theirs);
    }
  }
  joined.insert(joined.end(), mine, points_.cend());
  points_ = std::move(joined);
}

}  // namespace millrace
