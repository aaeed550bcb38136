#include "sharding/pinned_pool.hpp"

#include <algorithm>

namespace millrace::sharding {

PinnedPool::~PinnedPool() {
  for (Piece& piece : idle_) {
    try {
      device_.synchronize(piece.used);
      device_.device().free_host(piece.data);
    } catch (...) {  // the device is lost, or its machine ends: the memory goes with it
    }
  }
}

PinnedPool::Piece PinnedPool::take(std::size_t bytes) {
  const auto fits = std::ranges::find_if(
      idle_, [&](const Piece& piece) { return piece.bytes >= bytes && device_.query(piece.used); });
  if (fits != idle_.end()) {
    Piece piece = std::move(*fits);
    idle_.erase(fits);
    return piece;
  }
  return {static_cast<std::byte*>(device_.device().allocate_host(bytes)), bytes, {}};
}

}  // namespace millrace::sharding
