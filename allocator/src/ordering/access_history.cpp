#include "ordering/access_history.hpp"

#include <iterator>
#include <utility>

namespace millrace::ordering {

// Makes cells begin at `begin` and end at `end`, and fills gaps with empty cells.
AccessHistory::Cells::iterator AccessHistory::cover(Address begin, Address end) {
  split(begin);
  split(end);
  Address at = begin;
  auto it = cells_.lower_bound(begin);
  while (at < end) {
    if (it == cells_.end() || it->first > at) {
      const Address gap_end = it == cells_.end() ? end : std::min(end, it->first);
      it = cells_.emplace_hint(it, at, Cell{gap_end, nullptr, {}});
    }
    at = it->second.end;
    ++it;
  }
  return cells_.find(begin);
}

void AccessHistory::erase(Address begin, Address end) {
  split(begin);
  split(end);
  for (auto it = cells_.lower_bound(begin); it != cells_.end() && it->first < end;) {
    size_ -= it->second.accesses.size();
    it = cells_.erase(it);
  }
}

void AccessHistory::copy(Address to, Address from, std::size_t bytes) {
  erase(to, to + bytes);
  const Address end = from + bytes;
  split(from);
  split(end);
  for (auto it = cells_.lower_bound(from); it != cells_.end() && it->first < end; ++it) {
    Cell cell = it->second;
    cell.end = cell.end - from + to;
    size_ += cell.accesses.size();
    cells_.emplace(it->first - from + to, std::move(cell));
  }
  merge(to, to + bytes);
}

void AccessHistory::split(Address at) {
  auto it = cells_.upper_bound(at);
  if (it == cells_.begin()) return;
  it = std::prev(it);
  if (it->first == at || it->second.end <= at) return;
  Cell upper = it->second;
  size_ += upper.accesses.size();
  it->second.end = at;
  cells_.emplace_hint(std::next(it), at, std::move(upper));
}

// Neighbors often have the same accesses, since programs use large parts of a block at once.
void AccessHistory::merge(Address begin, Address end) {
  auto it = cells_.lower_bound(begin);
  if (it == cells_.end()) return;
  if (it != cells_.begin()) it = std::prev(it);
  for (auto next = std::next(it); next != cells_.end() && it->first < end;) {
    if (it->second.end == next->first && it->second.same_past(next->second)) {
      it->second.end = next->second.end;
      size_ -= next->second.accesses.size();
      next = cells_.erase(next);
    } else {
      it = next++;
    }
  }
}

}  // namespace millrace::ordering
