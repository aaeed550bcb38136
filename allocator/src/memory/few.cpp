#include "memory/few.hpp"

namespace millrace {

void PointSet::join(Point point) {
  if (empty()) return push_back(point);
  if (Point* const known = only(); known != nullptr && known->stream == point.stream) {
    known->marker = std::max(known->marker, point.marker);
    return;
  }
  std::vector<Point>& all = list();
  const auto it = std::ranges::lower_bound(all, point.stream, {}, &Point::stream);
  if (it == all.end() || it->stream != point.stream) {
    all.insert(it, point);
  } else {
    it->marker = std::max(it->marker, point.marker);
  }
}

}  // namespace millrace
