#include "memory/few.hpp"

namespace millrace {

void PointSet::join(Point point) {
  if (empty()) return push_back(point);
  Point* const all = items();
  Point* const end = all + size();
  Point* const at = std::lower_bound(
      all, end, point.stream, [](const Point& known, StreamId s) { return known.stream < s; });
  if (at != end && at->stream == point.stream) {
    at->marker = std::max(at->marker, point.marker);
  } else {
    insert(static_cast<std::size_t>(at - all), point);
  }
}

}  // namespace millrace
