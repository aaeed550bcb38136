#include "memory/few.hpp"

#include "ordering/steps.hpp"

namespace millrace {

void PointSet::join_among(Point point) {
  Point* const all = items();
  Point* const end = all + size();
  Point* const at = std::lower_bound(
      all, end, point.stream, [](const Point& known, StreamId s) { return known.stream < s; });
  if (at != end && at->stream == point.stream) {
    at->marker = std::max(at->marker, point.marker);
  } else {
    ordering::count_steps(static_cast<std::size_t>(end - at) + 1);
    insert(static_cast<std::size_t>(at - all), point);
  }
}

// Sorted points are inserted after nearly all points that the set has by then, so few points move.
void PointSet::join_all(std::vector<Point>& points) {
  std::ranges::sort(points, {}, &Point::stream);
  for (const Point point : points) join(point);
}

}  // namespace millrace
