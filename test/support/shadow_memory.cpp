#include "test/support/shadow_memory.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::test {
namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

constexpr std::size_t kWord = sizeof(std::uint64_t);

std::uint64_t word_of(std::uint64_t write, std::size_t index) {
  const std::uint64_t mixed = (write + 1) * 0x9e3779b97f4a7c15 + index * 0xbf58476d1ce4e5b9;
  return (mixed ^ mixed >> 31) * 0x94d049bb133111eb;
}

/// Calls `take(at, data, count)` for the bytes of a write from `first` on, a word at a time, until
/// it returns false. Tests fill and compare gigabytes, so `count` is a constant for whole words and
/// the compiler needs no loop for them.
template <typename Take>
bool each_word(std::uint64_t write, std::size_t first, std::size_t bytes, const Take& take) {
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t begin = (first + at) % kWord;
    const std::uint64_t word = word_of(write, (first + at) / kWord);
    const auto* data = reinterpret_cast<const std::byte*>(&word) + begin;
    if (begin == 0 && bytes - at >= kWord) {
      if (!take(at, data, kWord)) return false;
      at += kWord;
    } else {
      const std::size_t count = std::min(kWord - begin, bytes - at);
      if (!take(at, data, count)) return false;
      at += count;
    }
  }
  return true;
}

}  // namespace

std::uint64_t ShadowMemory::write(const void* address, std::size_t bytes) {
  forget(address, bytes);
  const std::uintptr_t begin = number(address);
  intervals_[begin] = {begin + bytes, ++writes_, begin};
  return writes_;
}

std::vector<ShadowMemory::Part> ShadowMemory::read(const void* address, std::size_t bytes) const {
  const std::uintptr_t begin = number(address);
  const std::uintptr_t end = begin + bytes;
  auto it = intervals_.upper_bound(begin);
  if (it != intervals_.begin() && std::prev(it)->second.end > begin) --it;
  std::vector<Part> parts;
  for (; it != intervals_.end() && it->first < end; ++it) {
    const std::uintptr_t from = std::max(begin, it->first);
    const std::uintptr_t to = std::min(end, it->second.end);
    parts.push_back({from - begin, to - from, it->second.write, from - it->second.base});
  }
  return parts;
}

void ShadowMemory::forget(const void* address, std::size_t bytes) {
  const std::uintptr_t begin = number(address);
  const std::uintptr_t end = begin + bytes;
  auto it = intervals_.upper_bound(begin);
  if (it != intervals_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != intervals_.end() && it->first < end) {
    const auto [from, old] = *it;
    it = intervals_.erase(it);
    if (from < begin) intervals_[from] = {begin, old.write, old.base};
    if (old.end > end) intervals_[end] = {old.end, old.write, old.base};
  }
}

void ShadowMemory::fill(std::span<std::byte> range, std::uint64_t write) {
  each_word(write, 0, range.size(), [&](std::size_t at, const std::byte* data, std::size_t count) {
    std::memcpy(range.data() + at, data, count);
    return true;
  });
}

bool ShadowMemory::holds(std::span<const std::byte> range, const Part& part) {
  const std::span<const std::byte> read = range.subspan(part.at, part.bytes);
  return each_word(part.write, part.first, read.size(),
                   [&](std::size_t at, const std::byte* data, std::size_t count) {
                     return std::memcmp(read.data() + at, data, count) == 0;
                   });
}

}  // namespace millrace::test
