#include "sharding/pinned_pool.hpp"

#include <algorithm>

namespace millrace::sharding {

PinnedPool::~PinnedPool() {
  for (const Piece::Memory& memory : idle_) {
    try {
      device_.synchronize(memory.used);
      device_.device().free_host(memory.data);
    } catch (...) {  // the device or its machine is gone, and the memory with it
    }
  }
}

PinnedPool::Piece PinnedPool::take(std::size_t bytes, StreamRef stream) {
  // Only memory whose copies are complete, because the host writes to it at once.
  const auto fits = std::ranges::find_if(idle_, [&](const Piece::Memory& memory) {
    return memory.bytes >= bytes && device_.query(memory.used);
  });
  if (fits == idle_.end()) {
    auto* const data = static_cast<std::byte*>(device_.device().allocate_host(bytes));
    return {shared_from_this(), stream, {data, bytes, {}}};
  }
  Piece piece{shared_from_this(), stream, {fits->data, fits->bytes, {}}};
  idle_.erase(fits);
  return piece;
}

PinnedPool::Piece& PinnedPool::Piece::operator=(Piece&& other) noexcept {
  give_back();
  pool_ = std::move(other.pool_);
  stream_ = other.stream_;
  memory_ = std::move(other.memory_);
  return *this;
}

void PinnedPool::Piece::record_use() { pool_->device_.record(memory_.used, *stream_); }

// If an exception was thrown before the use was recorded, the device may still use the piece.
void PinnedPool::Piece::give_back() noexcept {
  if (pool_ == nullptr) return;
  try {
    if (!memory_.used.recorded()) record_use();
    pool_->idle_.push_back(std::move(memory_));
  } catch (...) {  // unknown when the device is done with the piece, so it is leaked
  }
  pool_.reset();
}

}  // namespace millrace::sharding
