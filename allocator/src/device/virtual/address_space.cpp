#include "device/virtual/address_space.hpp"

#include <iterator>

namespace millrace::simulation {

AddressSpace::AddressSpace(std::size_t size) {
  if (size > 0) holes_.emplace(0, size);
}

std::optional<std::size_t> AddressSpace::take(std::size_t bytes) {
  for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
    const auto [offset, size] = *hole;
    if (size < bytes) continue;
    holes_.erase(hole);
    if (size > bytes) holes_.emplace(offset + bytes, size - bytes);
    taken_.emplace(offset, bytes);
    taken_bytes_ += bytes;
    return offset;
  }
  return std::nullopt;
}

std::size_t AddressSpace::give(std::size_t offset) {
  const auto range = taken_.find(offset);
  if (range == taken_.end()) return 0;
  const std::size_t bytes = range->second;
  taken_.erase(range);
  taken_bytes_ -= bytes;

  auto hole = holes_.emplace(offset, bytes).first;
  if (const auto next = std::next(hole); next != holes_.end() && next->first == offset + bytes) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole != holes_.begin()) {
    const auto before = std::prev(hole);
    if (before->first + before->second == offset) {
      before->second += hole->second;
      holes_.erase(hole);
    }
  }
  return bytes;
}

bool AddressSpace::holds(std::size_t offset, std::size_t bytes) const noexcept {
  auto range = taken_.upper_bound(offset);
  if (range == taken_.begin()) return false;
  --range;
  const std::size_t within = offset - range->first;
  return within <= range->second && bytes <= range->second - within;
}

}  // namespace millrace::simulation
