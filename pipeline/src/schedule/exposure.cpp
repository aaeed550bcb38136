#include "millrace/pipeline/schedule/exposure.hpp"

#include <algorithm>

namespace millrace {
namespace {

/** Disjoint, sorted, clipped to the window. */
std::vector<Interval> merged(const std::vector<Interval>& intervals, Interval window) {
  std::vector<Interval> result;
  for (Interval piece : intervals) {
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

Nanoseconds length(const std::vector<Interval>& intervals) {
  Nanoseconds sum{0};
  for (const Interval& piece : intervals) sum += piece.end - piece.begin;
  return sum;
}

Nanoseconds overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
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

Exposure exposure(const std::vector<Interval>& copies, const std::vector<Interval>& main,
                  Interval window) {
  const std::vector<Interval> copying = merged(copies, window);
  const Nanoseconds total = length(copying);
  return {total, total - overlap(copying, merged(main, window))};
}

}  // namespace millrace
