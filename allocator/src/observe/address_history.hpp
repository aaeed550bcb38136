#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "millrace/observe/allocation_trace.hpp"

namespace millrace {

/**
 * @brief For each address, the blocks that used its memory, oldest first. Blocks that do not matter
 *        any more are removed (`keep` of `take`).
 */
class AddressHistory {
 public:
  using Item = std::uint32_t;

  AddressHistory() = default;
  /** @param moves  moved pages of the trace, in order */
  explicit AddressHistory(std::span<const TracedMove> moves) : moves_(moves) {}

  /** @brief Applies the moves before `position`, which must not decrease between calls. */
  void move_until(TracePosition position) {
    for (; !moves_.empty() && moves_.front().position < position; moves_ = moves_.subspan(1)) {
      move(moves_.front());
    }
  }

  /**
   * @brief Gives [begin, begin + bytes) to `item`.
   * @param keep  `bool(Item)`: returns whether an earlier item still matters; evaluated at each
   * take
   * @return the earlier items that used a part of these addresses, ascending, each once
   */
  template <typename Keep>
  std::vector<Item> take(std::uintptr_t begin, std::size_t bytes, Item item, Keep keep) {
    const std::uintptr_t end = begin + bytes;
    split(begin);
    split(end);
    std::vector<Item> earlier;
    std::vector<Gap> gaps;
    std::uintptr_t at = begin;
    for (auto range = ranges_.lower_bound(begin); range != ranges_.end() && range->first < end;
         ++range) {
      if (at < range->first) gaps.push_back({at, range->first});
      at = range->second.end;
      std::erase_if(range->second.items, [&](Item old) { return !keep(old); });
      earlier.insert(earlier.end(), range->second.items.begin(), range->second.items.end());
      range->second.items.push_back(item);
    }
    if (at < end) gaps.push_back({at, end});
    for (const Gap& gap : gaps) ranges_.emplace(gap.begin, Range{gap.end, {item}});
    join(begin, end, item);
    std::ranges::sort(earlier);
    earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
    return earlier;
  }

  /** @brief Calls `visit(begin, end, newest item)` for each range, in order of address. */
  template <typename Visit>
  void for_each_newest(Visit visit) const {
    for (const auto& [begin, range] : ranges_) visit(begin, range.end, range.items.back());
  }

 private:
  struct Range {
    std::uintptr_t end;
    std::vector<Item> items;
  };
  struct Gap {
    std::uintptr_t begin, end;
  };

  void move(const TracedMove& move) {
    erase(move.to, move.to + move.bytes);
    split(move.from);
    split(move.from + move.bytes);
    const auto first = ranges_.lower_bound(move.from);
    const auto last = ranges_.lower_bound(move.from + move.bytes);
    std::map<std::uintptr_t, Range> moved;
    for (auto range = first; range != last; ++range) {
      range->second.end = range->second.end - move.from + move.to;
      moved.emplace(range->first - move.from + move.to, std::move(range->second));
    }
    ranges_.erase(first, last);
    ranges_.merge(moved);
  }

  void erase(std::uintptr_t begin, std::uintptr_t end) {
    split(begin);
    split(end);
    ranges_.erase(ranges_.lower_bound(begin), ranges_.lower_bound(end));
  }

  void split(std::uintptr_t at) {
    auto range = ranges_.upper_bound(at);
    if (range == ranges_.begin()) return;
    --range;
    if (range->first == at || range->second.end <= at) return;
    ranges_.emplace_hint(std::next(range), at, range->second);
    range->second.end = at;
  }

  /** Joins adjacent ranges that only `item` used, so that ranges are not more than blocks. */
  void join(std::uintptr_t begin, std::uintptr_t end, Item item) {
    const auto only = [&](const Range& range) {
      return range.items.size() == 1 && range.items.front() == item;
    };
    auto range = ranges_.lower_bound(begin);
    while (range != ranges_.end() && range->first < end) {
      const auto next = std::next(range);
      if (next == ranges_.end() || next->first >= end) return;
      if (only(range->second) && only(next->second)) {
        range->second.end = next->second.end;
        ranges_.erase(next);
      } else {
        range = next;
      }
    }
  }

  std::map<std::uintptr_t, Range> ranges_;
  std::span<const TracedMove> moves_;  // not applied yet
};

}  // namespace millrace
