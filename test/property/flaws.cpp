#include "test/property/flaws.hpp"

#include <algorithm>
#include <array>
#include <ostream>
#include <stdexcept>

#include "test/support/long_past.hpp"

namespace millrace::test {

std::ostream& operator<<(std::ostream& out, Flaw flaw) {
  constexpr std::array kNames{"none",         "gives too little",  "gives twice",
                              "forgets uses", "forgets streams",   "forgets markers",
                              "drops waits",  "believes in speed", "loses frees",
                              "gives up",     "is moody"};
  return out << kNames.at(static_cast<std::size_t>(flaw));
}

void* FlawedAllocator::allocate(std::size_t bytes, StreamRef owner, StreamRef first_user, Tag tag) {
  const auto from_inner = [&](std::size_t size) {
    return ForwardingAllocator::allocate(size, owner, first_user, tag);
  };
  if (gave_up_) throw DeviceError{ErrorCode::unknown, "allocate", "gave up"};
  if (flaw_ == Flaw::gives_too_little) return from_inner((bytes + 1) / 2);
  if (flaw_ == Flaw::gives_twice) {
    void* const address = from_inner(bytes);
    ForwardingAllocator::deallocate(address);
    return address;
  }
  if (flaw_ == Flaw::is_moody) {
    static std::size_t mood = 0;
    if (++mood % 5 == 0) trim();
  }
  try {
    return from_inner(bytes);
  } catch (const DeviceError&) {
    gave_up_ = flaw_ == Flaw::gives_up;
    throw;
  }
}

void FlawedAllocator::deallocate(void* address) {
  if (flaw_ != Flaw::loses_frees || ++frees_ % 8 != 0) ForwardingAllocator::deallocate(address);
}

void FlawedAllocator::deallocate(void* address, StreamRef stream) {
  if (flaw_ == Flaw::forgets_streams) return ForwardingAllocator::deallocate(address);
  ForwardingAllocator::deallocate(address, stream);
}

void FlawedAllocator::deallocate(void* address, Point marker) {
  if (flaw_ == Flaw::forgets_markers) marker = kLongPast;
  ForwardingAllocator::deallocate(address, marker);
}

void FlawedAllocator::record_use(void* address, StreamRef stream) {
  if (flaw_ != Flaw::forgets_uses) ForwardingAllocator::record_use(address, stream);
}

void* WatchedSource::acquire(std::size_t bytes) {
  auto* const base = static_cast<std::byte*>(inner_.acquire(bytes));
  const auto next = mapped_.lower_bound(base);
  const bool overlaps_next = next != mapped_.end() && base + bytes > next->first;
  const bool overlaps_last =
      next != mapped_.begin() && std::prev(next)->first + std::prev(next)->second > base;
  if (overlaps_next || overlaps_last) throw std::logic_error{"law 1: segments overlap"};
  mapped_.emplace(base, bytes);
  return base;
}

void WatchedSource::release(void* base, std::size_t bytes) {
  const auto it = mapped_.find(static_cast<std::byte*>(base));
  if (it == mapped_.end() || it->second != bytes) {
    throw std::logic_error{"law 1: something else than a segment is given back"};
  }
  if (keep_) {
    kept_.insert(*it);
  } else {
    inner_.release(base, bytes);
  }
  mapped_.erase(static_cast<std::byte*>(base));
}

WatchedSource::~WatchedSource() {
  for (const auto& [base, bytes] : kept_) inner_.release(base, bytes);
  for (std::byte* page : kept_pages_) inner_.unmap(page, page_bytes());
  if (!keep_) return;
  for (const auto& [base, bytes] : ranges_) inner_.give_back({base, bytes});
}

AddressRange WatchedSource::reserve() {
  const AddressRange range = inner_.reserve();
  ranges_.emplace(static_cast<std::byte*>(range.base), range.bytes);
  return range;
}

void WatchedSource::give_back(AddressRange range) {
  auto* const base = static_cast<std::byte*>(range.base);
  const auto page = pages_.lower_bound(base);
  const auto left = left_.lower_bound(base);
  const bool has_left = left != left_.end() && *left < base + range.bytes;
  if (has_left || (page != pages_.end() && *page < base + range.bytes)) {
    throw std::logic_error{"law 1: addresses are given back with memory in them"};
  }
  if (keep_) return;
  inner_.give_back(range);
  ranges_.erase(base);
}

WatchedSource::Pages WatchedSource::pages_of(void* address, std::size_t bytes) const {
  auto* const begin = static_cast<std::byte*>(address);
  const auto next = ranges_.upper_bound(begin);
  const bool inside =
      next != ranges_.begin() && begin + bytes <= std::prev(next)->first + std::prev(next)->second;
  if (!inside || bytes == 0) throw std::logic_error{"law 1: memory is mapped outside of ranges"};
  const auto offset = static_cast<std::size_t>(begin - std::prev(next)->first);
  if (offset % page_bytes() != 0 || bytes % page_bytes() != 0) {
    throw std::logic_error{"law 1: something else than pages is mapped"};
  }
  Pages pages;
  for (std::size_t at = 0; at < bytes; at += page_bytes()) pages.insert(begin + at);
  return pages;
}

void WatchedSource::map(void* address, std::size_t bytes) {
  const Pages wanted = pages_of(address, bytes);
  for (std::byte* page : wanted) {
    if (pages_.contains(page) || left_.contains(page))
      throw std::logic_error{"law 1: a page is mapped twice"};
  }
  const auto kept = [&](std::byte* page) { return kept_pages_.contains(page); };
  if (std::ranges::none_of(wanted, kept)) {
    inner_.map(address, bytes);
  } else {
    for (std::byte* page : wanted) {  // if a page fails, the ones before it count as kept
      if (!kept(page)) inner_.map(page, page_bytes());
      kept_pages_.insert(page);
    }
    for (std::byte* page : wanted) kept_pages_.erase(page);
  }
  pages_.insert(wanted.begin(), wanted.end());
}

void WatchedSource::unmap(void* address, std::size_t bytes) {
  const Pages gone = pages_of(address, bytes);
  for (std::byte* page : gone) {
    if (!pages_.contains(page)) throw std::logic_error{"law 1: a page is unmapped twice"};
  }
  if (!keep_) inner_.unmap(address, bytes);
  for (std::byte* page : gone) pages_.erase(page);
  if (keep_) kept_pages_.insert(gone.begin(), gone.end());
}

void WatchedSource::begin_move(void* to, void* from, std::size_t bytes) {
  const Pages wanted = pages_of(to, bytes), gone = pages_of(from, bytes);
  for (std::byte* page : wanted) {
    if (pages_.contains(page) || left_.contains(page)) {
      throw std::logic_error{"law 1: pages are moved to where memory is"};
    }
  }
  for (std::byte* page : gone) {
    if (!pages_.contains(page)) throw std::logic_error{"law 1: what is moved is not mapped"};
  }
  inner_.begin_move(to, from, bytes);
  for (std::byte* page : gone) pages_.erase(page);
  pages_.insert(wanted.begin(), wanted.end());
  left_.insert(gone.begin(), gone.end());
}

void WatchedSource::end_move(void* from, std::size_t bytes) {
  const Pages gone = pages_of(from, bytes);
  for (std::byte* page : gone) {
    if (!left_.contains(page)) throw std::logic_error{"law 1: a move ends that never began"};
  }
  inner_.end_move(from, bytes);
  for (std::byte* page : gone) left_.erase(page);
}

bool WatchedSource::contains(const void* address, std::size_t bytes) const {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(address));
  const auto next = mapped_.upper_bound(begin);
  if (next != mapped_.begin()) {
    const auto& [base, size] = *std::prev(next);
    if (begin + bytes <= base + size) return true;
  }
  for (const std::byte* at = begin; at < begin + bytes;) {
    const auto after = pages_.upper_bound(const_cast<std::byte*>(at));
    if (after == pages_.begin()) return false;
    const std::byte* const end = *std::prev(after) + page_bytes();
    if (at >= end) return false;
    at = end;
  }
  return true;
}

std::size_t WatchedSource::bytes() const {
  std::size_t sum = pages_.size() * page_bytes();
  for (const auto& [base, size] : mapped_) sum += size;
  return sum;
}

}  // namespace millrace::test
