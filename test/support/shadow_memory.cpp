#include "test/support/shadow_memory.hpp"

#include <algorithm>

namespace millrace::test {
namespace {

std::uintptr_t number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

/** The bytes of one write, one after another. */
class Bytes {
 public:
  Bytes(std::uint64_t write, std::size_t first) : write_(write), at_(first) { draw(); }

  std::byte next() {
    const auto byte = static_cast<std::byte>(word_ >> at_ % 8 * 8);
    if (++at_ % 8 == 0) draw();
    return byte;
  }

 private:
  void draw() {
    word_ = (write_ + 1) * 0x9e3779b97f4a7c15 + at_ / 8 * 0xbf58476d1ce4e5b9;
    word_ = (word_ ^ word_ >> 31) * 0x94d049bb133111eb;
  }

  std::uint64_t write_;
  std::size_t at_;
  std::uint64_t word_ = 0;
};

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
  Bytes bytes{write, 0};
  for (std::byte& byte : range) byte = bytes.next();
}

bool ShadowMemory::holds(std::span<const std::byte> range, const Part& part) {
  Bytes bytes{part.write, part.first};
  for (const std::byte byte : range.subspan(part.at, part.bytes)) {
    if (byte != bytes.next()) return false;
  }
  return true;
}

}  // namespace millrace::test
