#include "memory/advice.hpp"

#include <algorithm>
#include <iterator>

namespace millrace::virtual_cuda {
namespace {

constexpr cudaMemLocation kNowhere{cudaMemLocationTypeInvalid, cudaInvalidDeviceId};

void intersect(cudaMemLocation& all, const cudaMemLocation& one) {
  if (all.type != one.type || all.id != one.id) all = kNowhere;
}

void intersect(ManagedAdvice::Advice& all, const ManagedAdvice::Advice& one) {
  all.read_mostly = all.read_mostly && one.read_mostly;
  intersect(all.preferred, one.preferred);
  intersect(all.prefetched, one.prefetched);
  std::erase_if(all.accessed_by, [&](int device) { return !one.accessed_by.contains(device); });
}

}  // namespace

ManagedAdvice::Range ManagedAdvice::pages_of(const void* address, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin / kPage * kPage, (begin + bytes + kPage - 1) / kPage * kPage};
}

void ManagedAdvice::split(std::uintptr_t page) {
  auto piece = pieces_.lower_bound(page);
  if (piece == pieces_.begin()) return;
  --piece;
  if (piece->second.end <= page) return;
  pieces_.emplace(page, piece->second);
  piece->second.end = page;
}

ManagedAdvice::Pieces::iterator ManagedAdvice::cut(std::uintptr_t page, std::uintptr_t end) {
  split(page);
  split(end);
  const auto piece = pieces_.lower_bound(page);
  if (piece != pieces_.end() && piece->first == page) return piece;
  const std::uintptr_t gap = piece == pieces_.end() ? end : std::min(end, piece->first);
  return pieces_.emplace(page, Piece{gap, {}}).first;
}

ManagedAdvice::Advice ManagedAdvice::common(const void* address, std::size_t bytes) const {
  const Range range = pages_of(address, bytes);
  auto piece = pieces_.upper_bound(range.begin);
  if (piece == pieces_.begin()) return {};
  --piece;
  if (piece->second.end <= range.begin) return {};
  Advice all = piece->second.advice;
  for (std::uintptr_t page = piece->second.end; page < range.end; page = piece->second.end) {
    if (++piece == pieces_.end() || piece->first != page) return {};
    intersect(all, piece->second.advice);
  }
  return all;
}

void ManagedAdvice::forget(const void* address, std::size_t bytes) {
  const Range range = pages_of(address, bytes);
  split(range.begin);
  split(range.end);
  pieces_.erase(pieces_.lower_bound(range.begin), pieces_.lower_bound(range.end));
}

}  // namespace millrace::virtual_cuda
