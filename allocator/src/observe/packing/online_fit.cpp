#include "observe/packing/online_fit.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace millrace::packing {

namespace {

/** Free ranges below the highest end so far, merged with their neighbors. */
class Holes {
 public:
  /** @return the offset of the smallest hole that fits, or of new room at the top */
  std::uint64_t take(std::uint64_t bytes) {
    const auto found = by_bytes_.lower_bound({bytes, 0});
    if (found == by_bytes_.end()) return grow(bytes);
    const auto [hole, offset] = *found;
    remove(offset, hole);
    if (hole > bytes) add(offset + bytes, hole - bytes);
    return offset;
  }

  void give_back(std::uint64_t offset, std::uint64_t bytes) {
    auto after = by_offset_.lower_bound(offset);
    if (after != by_offset_.begin()) {
      const auto [begin, length] = *std::prev(after);
      if (begin + length == offset) {
        remove(begin, length);
        offset = begin;
        bytes += length;
      }
    }
    after = by_offset_.lower_bound(offset);
    if (after != by_offset_.end() && offset + bytes == after->first) {
      const std::uint64_t more = after->second;
      remove(after->first, more);
      bytes += more;
    }
    add(offset, bytes);
  }

  [[nodiscard]] std::uint64_t top() const noexcept { return top_; }

 private:
  std::uint64_t grow(std::uint64_t bytes) {
    std::uint64_t offset = top_;
    if (!by_offset_.empty()) {
      const auto [begin, length] = *by_offset_.rbegin();
      if (begin + length == top_) {
        remove(begin, length);
        offset = begin;
      }
    }
    top_ = offset + bytes;
    return offset;
  }

  void add(std::uint64_t offset, std::uint64_t bytes) {
    by_offset_.emplace(offset, bytes);
    by_bytes_.emplace(bytes, offset);
  }

  void remove(std::uint64_t offset, std::uint64_t bytes) {
    by_offset_.erase(offset);
    by_bytes_.erase({bytes, offset});
  }

  std::map<std::uint64_t, std::uint64_t> by_offset_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_bytes_;
  std::uint64_t top_ = 0;
};

struct Change {
  std::int64_t time;
  bool begins;
  std::size_t item;
};

}  // namespace

Packing pack_online(std::span<const Interval> intervals, std::span<const std::size_t> items) {
  Packing packing{.offsets = std::vector<std::uint64_t>(intervals.size()), .height = 0};
  std::vector<Change> changes;
  changes.reserve(2 * items.size());
  for (const std::size_t item : items) {
    changes.push_back({intervals[item].lower, true, item});
    changes.push_back({intervals[item].upper, false, item});
  }
  std::ranges::sort(changes, {}, [&](const Change& change) {  // of several, the largest first
    return std::tuple{change.time, change.begins, ~intervals[change.item].bytes, change.item};
  });
  Holes holes;
  for (const auto& [time, begins, item] : changes) {
    const std::uint64_t bytes = intervals[item].bytes;
    if (begins) {
      packing.offsets[item] = holes.take(bytes);
    } else {
      holes.give_back(packing.offsets[item], bytes);
    }
  }
  packing.height = holes.top();
  return packing;
}

}  // namespace millrace::packing
