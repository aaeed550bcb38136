#include "millrace/device/address_space.hpp"

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

bool MappedOffsets::add(std::size_t offset, std::size_t bytes) {
  const auto next = pieces_.lower_bound(offset);
  if (next != pieces_.end() && next->first < offset + bytes) return false;
  const auto before = next == pieces_.begin() ? pieces_.end() : std::prev(next);
  if (before != pieces_.end() && before->first + before->second > offset) return false;
  if (next != pieces_.end() && next->first == offset + bytes) {
    bytes += next->second;
    pieces_.erase(next);
  }
  if (before != pieces_.end() && before->first + before->second == offset) {
    before->second += bytes;
  } else {
    pieces_.emplace(offset, bytes);
  }
  return true;
}

bool MappedOffsets::remove(std::size_t offset, std::size_t bytes) {
  if (!holds(offset, bytes)) return false;
  const auto piece = std::prev(pieces_.upper_bound(offset));
  const std::size_t end = piece->first + piece->second;
  piece->second = offset - piece->first;
  if (piece->second == 0) pieces_.erase(piece);
  if (offset + bytes < end) pieces_.emplace(offset + bytes, end - offset - bytes);
  return true;
}

bool MappedOffsets::holds(std::size_t offset, std::size_t bytes) const noexcept {
  auto piece = pieces_.upper_bound(offset);
  if (piece == pieces_.begin()) return false;
  --piece;
  const std::size_t within = offset - piece->first;
  return within <= piece->second && bytes <= piece->second - within;
}

}  // namespace millrace::simulation
