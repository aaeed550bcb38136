#include "allocator/machine/null_memory.hpp"

#include <algorithm>

namespace millrace::bench {
namespace {

constexpr std::uintptr_t kEnd = std::uintptr_t{1} << 47;
constexpr std::size_t kGranule = 512;

std::size_t round_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

bool NullMemory::take(std::size_t bytes) {
  if (bytes > kTotal - held_) return false;
  held_ += bytes;
  peak_ = std::max(peak_, held_);
  return true;
}

void* NullMemory::place(std::size_t bytes) {
  const std::uintptr_t begin = round_up(next_, bytes < page_ ? kGranule : page_);
  if (begin + bytes > kEnd) return nullptr;
  next_ = begin + bytes;
  return reinterpret_cast<void*>(begin);
}

void* NullMemory::reuse(std::size_t bytes) {
  const auto free = freed_.find(bytes);
  if (free == freed_.end() || free->second.empty()) return nullptr;
  const std::uintptr_t address = free->second.back();
  free->second.pop_back();
  return reinterpret_cast<void*>(address);
}

void* NullMemory::allocate(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  bytes = round_up(bytes, kGranule);
  if (!take(bytes)) return nullptr;
  if (!freed_.empty()) {
    if (void* const again = reuse(bytes)) return again;
  }
  void* const fresh = place(bytes);
  if (fresh == nullptr) {
    held_ -= bytes;
    return nullptr;
  }
  pieces_.push_back({reinterpret_cast<std::uintptr_t>(fresh), bytes});
  return fresh;
}

void NullMemory::free(void* address) {
  const std::lock_guard lock{mutex_};
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  const auto it = std::ranges::lower_bound(pieces_, number, {}, &Piece::address);
  if (it == pieces_.end() || it->address != number) return;
  held_ -= it->bytes;
  freed_[it->bytes].push_back(number);
}

void* NullMemory::reserve(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  return place(round_up(bytes, page_));
}

bool NullMemory::map(std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  if (!take(bytes)) return false;
  mapped_pages_ += bytes / page_;
  return true;
}

void NullMemory::unmap(const void* address, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  held_ -= aliased_.unmap(address, bytes);
}

void NullMemory::alias(const void* to, const void* from, std::size_t bytes) {
  const std::lock_guard lock{mutex_};
  aliased_.alias(to, from, bytes);
  mapped_pages_ += bytes / page_;
}

std::size_t NullMemory::held() const {
  const std::lock_guard lock{mutex_};
  return held_;
}

std::size_t NullMemory::peak() const {
  const std::lock_guard lock{mutex_};
  return peak_;
}

std::uint64_t NullMemory::mapped_pages() const {
  const std::lock_guard lock{mutex_};
  return mapped_pages_;
}

}  // namespace millrace::bench
