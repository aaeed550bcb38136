#include "test/property/flaws.hpp"

#include <array>
#include <ostream>
#include <stdexcept>

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
  if (flaw_ == Flaw::forgets_markers) marker.marker = 0;
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
}

bool WatchedSource::contains(const void* address, std::size_t bytes) const {
  auto* const begin = static_cast<std::byte*>(const_cast<void*>(address));
  const auto next = mapped_.upper_bound(begin);
  if (next == mapped_.begin()) return false;
  const auto& [base, size] = *std::prev(next);
  return begin + bytes <= base + size;
}

std::size_t WatchedSource::bytes() const {
  std::size_t sum = 0;
  for (const auto& [base, size] : mapped_) sum += size;
  return sum;
}

}  // namespace millrace::test
