#include "test/support/pairwise.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace millrace::test {
namespace {

using Value = std::pair<std::size_t, std::size_t>;  ///< an option and one of its values
using Pair = std::pair<Value, Value>;               ///< the lower option first

std::set<Pair> all_pairs(const std::vector<std::size_t>& options) {
  std::set<Pair> pairs;
  for (std::size_t second = 1; second < options.size(); ++second) {
    for (std::size_t first = 0; first < second; ++first) {
      for (std::size_t a = 0; a < options[first]; ++a) {
        for (std::size_t b = 0; b < options[second]; ++b) pairs.insert({{first, a}, {second, b}});
      }
    }
  }
  return pairs;
}

using Row = std::vector<std::optional<std::size_t>>;

/// Returns the number of missing pairs that this value adds to the row.
std::size_t gain(const std::set<Pair>& missing, const Row& row, Value value) {
  std::size_t pairs = 0;
  for (std::size_t option = 0; option < row.size(); ++option) {
    if (!row[option] || option == value.first) continue;
    const Value other{option, *row[option]};
    pairs += missing.count(std::minmax(other, value));
  }
  return pairs;
}

}  // namespace

// Greedy: a row begins with a missing pair. Then each option gets the value that adds most pairs.
std::vector<std::vector<std::size_t>> pairwise(const std::vector<std::size_t>& options) {
  std::vector<std::vector<std::size_t>> rows;
  std::set<Pair> missing = all_pairs(options);
  while (!missing.empty()) {
    Row row(options.size());
    for (const Value& value : {missing.begin()->first, missing.begin()->second}) {
      row[value.first] = value.second;
    }
    for (std::size_t option = 0; option < options.size(); ++option) {
      if (row[option]) continue;
      std::size_t best = 0;
      for (std::size_t value = 1; value < options[option]; ++value) {
        if (gain(missing, row, {option, value}) > gain(missing, row, {option, best})) best = value;
      }
      row[option] = best;
    }
    std::vector<std::size_t>& done = rows.emplace_back();
    for (const auto& value : row) done.push_back(*value);
    std::erase_if(missing, [&](const Pair& pair) {
      return done[pair.first.first] == pair.first.second &&
             done[pair.second.first] == pair.second.second;
    });
  }
  return rows;
}

}  // namespace millrace::test
