#include "millrace/experiment/exposure.hpp"

#include <algorithm>

namespace millrace::experiment {
namespace {

/** The union of the intervals within the window, as disjoint, sorted intervals. */
std::vector<TimeSpan> merged(const std::vector<TimeSpan>& intervals, TimeSpan window) {
  std::vector<TimeSpan> result;
  for (TimeSpan piece : intervals) {
    piece.begin = std::max(piece.begin, window.begin);
    piece.end = std::min(piece.end, window.end);
    if (piece.begin >= piece.end) continue;
    if (!result.empty() && piece.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, piece.end);
    } else {
      result.push_back(piece);
    }
  }
  return result;
}

Nanoseconds length(const std::vector<TimeSpan>& intervals) {
  Nanoseconds sum{0};
  for (const TimeSpan& piece : intervals) sum += piece.end - piece.begin;
  return sum;
}

Nanoseconds overlap(const std::vector<TimeSpan>& a, const std::vector<TimeSpan>& b) {
  Nanoseconds sum{0};
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const Nanoseconds begin = std::max(a[i].begin, b[j].begin);
    const Nanoseconds end = std::min(a[i].end, b[j].end);
    if (begin < end) sum += end - begin;
    a[i].end < b[j].end ? ++i : ++j;
  }
  return sum;
}

}  // namespace

Exposure exposure(const std::vector<TimeSpan>& copies, const std::vector<TimeSpan>& main,
                  TimeSpan window) {
  const std::vector<TimeSpan> copying = merged(copies, window);
  const Nanoseconds total = length(copying);
  return {total, total - overlap(copying, merged(main, window))};
}

}  // namespace millrace::experiment
