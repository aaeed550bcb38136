#include "millrace/text/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace millrace::text {
namespace {

/**
 * Returns the number of insertions, deletions, replacements and swaps of neighbors between both
 * (optimal string alignment). Swaps count because they are the most frequent typing error.
 */
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      row[j + 1] = std::min({row[j] + 1, last[j + 1] + 1, last[j] + (from[i] == to[j] ? 0 : 1)});
      const bool swapped = i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j];
      if (swapped) row[j + 1] = std::min(row[j + 1], before[j - 1] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // The distance is at least the difference in length, so a name of a megabyte costs nothing.
    if (name.size() > candidate.size() + least) continue;
    const std::size_t edits = distance(name, candidate);
    if (edits < least && edits < candidate.size()) {
      least = edits;
      best = candidate;
    }
  }
  return best;
}

}  // namespace millrace::text
