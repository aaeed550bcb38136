#include "observe/packing/search_packing.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <utility>

#include "observe/packing/lowest_fit.hpp"
#include "observe/packing/sections.hpp"

namespace millrace::packing {

namespace {

using Items = std::vector<std::size_t>;

// Beyond this the lists of a search take more memory than a bound is worth.
constexpr std::size_t kMostListed = 24'000'000;
constexpr int kMostLevels = 64;

/** Sums over a growing and shrinking set of ranked positions. */
class RankSums {
 public:
  explicit RankSums(std::size_t ranks) : sums_(ranks + 1) {}

  void add(std::size_t rank, std::uint64_t value) {
    for (++rank; rank < sums_.size(); rank += rank & -rank) sums_[rank] += value;
  }
  /** Of the positions below `end`. */
  [[nodiscard]] std::uint64_t below(std::size_t end) const {
    std::uint64_t sum = 0;
    for (; end > 0; end -= end & -end) sum += sums_[end];
    return sum;
  }

 private:
  std::vector<std::uint64_t> sums_;
};

/** Number and bytes of the lives that overlap one, while lives are taken out. */
class Crowd {
 public:
  explicit Crowd(std::size_t ranks)
      : lowers_(ranks), uppers_(ranks), lower_bytes_(ranks), upper_bytes_(ranks) {}

  void add(const Life& life, std::uint64_t bytes) { change(life, 1, bytes); }
  void remove(const Life& life, std::uint64_t bytes) { change(life, -std::uint64_t{1}, -bytes); }

  [[nodiscard]] std::uint64_t count(const Life& life) const {
    return lowers_.below(life.upper) - uppers_.below(std::size_t{life.lower} + 1);
  }
  [[nodiscard]] std::uint64_t bytes(const Life& life) const {
    return lower_bytes_.below(life.upper) - upper_bytes_.below(std::size_t{life.lower} + 1);
  }

 private:
  void change(const Life& life, std::uint64_t one, std::uint64_t bytes) {
    lowers_.add(life.lower, one);
    uppers_.add(life.upper, one);
    lower_bytes_.add(life.lower, bytes);
    upper_bytes_.add(life.upper, bytes);
  }

  RankSums lowers_, uppers_, lower_bytes_, upper_bytes_;
};

class PackingSearch {
 public:
  PackingSearch(std::span<const Interval> intervals, Steps& steps)
      : intervals_{intervals}, steps_{steps}, offsets_(intervals.size()) {}

  Outcome solve(Items items, std::uint64_t base, std::uint64_t height, int level);
  std::vector<std::uint64_t> offsets() && { return std::move(offsets_); }

 private:
  [[nodiscard]] std::vector<Interval> select(const Items& items) const {
    std::vector<Interval> selected;
    selected.reserve(items.size());
    for (const std::size_t item : items) selected.push_back(intervals_[item]);
    return selected;
  }

  [[nodiscard]] Items take_out_easy(Items& items, std::uint64_t height);
  [[nodiscard]] std::vector<Items> split(const Items& items, const std::vector<Sections::Block>&);
  Outcome solve_part(Items items, std::uint64_t base, std::uint64_t height, int level);
  Outcome search(const Items& items, std::vector<Sections::Block> blocks, std::uint64_t base,
                 std::uint64_t height);
  void put_back(const Items& placed, const Items& easy, std::uint64_t base);

  std::span<const Interval> intervals_;
  Steps& steps_;
  std::vector<std::uint64_t> offsets_;
};

/**
 * Takes out the items for which the others always leave a gap: another block of c bytes rules out
 * at most c + b - 1 offsets for a block of b. @return them, in the order of being taken out
 */
Items PackingSearch::take_out_easy(Items& items, std::uint64_t height) {
  const auto lives = ranked(select(items));
  Crowd crowd{2 * items.size()};
  for (std::size_t i = 0; i < items.size(); ++i) crowd.add(lives[i], intervals_[items[i]].bytes);
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return intervals_[items[i]].bytes; });
  const auto always_fits = [&](std::size_t i) {
    const std::uint64_t bytes = intervals_[items[i]].bytes;
    const std::uint64_t others = crowd.count(lives[i]) - 1;
    if (bytes > 1 && others > height / (bytes - 1)) return false;
    return crowd.bytes(lives[i]) + others * (bytes - 1) <= height;
  };
  Items easy;
  for (bool again = true; std::exchange(again, false);) {
    steps_.take(order.size() * std::bit_width(order.size()));
    std::erase_if(order, [&](std::size_t i) {
      if (!always_fits(i)) return false;
      crowd.remove(lives[i], intervals_[items[i]].bytes);
      easy.push_back(items[i]);
      return again = true;
    });
    again = again && !steps_.spent();
  }
  Items hard;
  for (const std::size_t i : order) hard.push_back(items[i]);
  items = std::move(hard);
  return easy;
}

/** Cuts items into stretches of time that none of them connects. */
std::vector<Items> PackingSearch::split(const Items& items,
                                        const std::vector<Sections::Block>& blocks) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return blocks[i].first; });
  std::vector<Items> parts;
  std::uint32_t end = 0;
  for (const std::size_t i : order) {
    if (parts.empty() || blocks[i].first >= end) parts.emplace_back();
    parts.back().push_back(items[i]);
    end = std::max(end, blocks[i].end);
  }
  return parts;
}

Outcome PackingSearch::solve(Items items, std::uint64_t base, std::uint64_t height, int level) {
  const Items easy = take_out_easy(items, height);
  if (!items.empty()) {
    const std::vector<Items> parts = split(items, cut_into_sections(select(items)));
    for (const Items& part : parts) {
      const bool smaller = !easy.empty() || parts.size() > 1;
      const Outcome outcome = smaller && level < kMostLevels && !steps_.spent()
                                  ? solve(part, base, height, level + 1)
                                  : solve_part(part, base, height, level);
      if (outcome != Outcome::found) return outcome;
    }
  }
  put_back(items, easy, base);
  return Outcome::found;
}

/** Solves a connected stretch: what lives through all of it lies at its bottom. */
Outcome PackingSearch::solve_part(Items items, std::uint64_t base, std::uint64_t height,
                                  int level) {
  std::vector<Sections::Block> blocks = cut_into_sections(select(items));
  std::uint32_t end = 0;
  for (const Sections::Block& block : blocks) end = std::max(end, block.end);
  std::uint64_t bottom = 0;
  Items rest;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (blocks[i].first == 0 && blocks[i].end == end) {
      offsets_[items[i]] = base + bottom;
      bottom += blocks[i].bytes;
    } else {
      rest.push_back(items[i]);
    }
  }
  if (bottom > height) return Outcome::impossible;
  if (rest.empty()) return Outcome::found;
  if (bottom == 0) return search(items, std::move(blocks), base, height);
  if (level < kMostLevels) {
    return solve(std::move(rest), base + bottom, height - bottom, level + 1);
  }
  blocks = cut_into_sections(select(rest));
  return search(rest, std::move(blocks), base + bottom, height - bottom);
}

Outcome PackingSearch::search(const Items& items, std::vector<Sections::Block> blocks,
                              std::uint64_t base, std::uint64_t height) {
  const auto sections = list_sections(std::move(blocks), kMostListed);
  if (!sections) return Outcome::gave_up;
  steps_.take(sections->members.total() + sections->overlaps.total());
  SectionSearch search{*sections, height};
  const Outcome outcome = search.run(steps_);
  for (std::size_t i = 0; i < items.size(); ++i) offsets_[items[i]] = base + search.offsets()[i];
  return outcome;
}

/** Places the easy ones into the gaps, the last taken out first. */
void PackingSearch::put_back(const Items& placed, const Items& easy, std::uint64_t base) {
  if (easy.empty()) return;
  Items all = placed;
  all.insert(all.end(), easy.rbegin(), easy.rend());
  const auto lives = ranked(select(all));
  LowestFit fit{lives};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::uint64_t bytes = intervals_[all[i]].bytes;
    if (i < placed.size()) {
      const std::uint64_t offset = offsets_[all[i]] - base;
      fit.put_at(i, {offset, offset + bytes});
    } else {
      offsets_[all[i]] = base + fit.put(i, bytes, steps_).offset;
    }
  }
}

}  // namespace

SearchResult search_packing(std::span<const Interval> intervals, std::uint64_t height,
                            Steps& steps) {
  Items items;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    if (intervals[i].bytes > 0 && intervals[i].lower < intervals[i].upper) items.push_back(i);
  }
  PackingSearch search{intervals, steps};
  SearchResult result;
  result.outcome = search.solve(std::move(items), 0, height, 0);
  result.offsets = std::move(search).offsets();
  return result;
}

}  // namespace millrace::packing
