#include "memory/graph/pool_blocks.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>
#include <vector>

namespace millrace {

void* PoolBlocks::allocate(const std::shared_ptr<PrivatePool>& pool, std::size_t bytes,
                           StreamRef owner, StreamRef user) {
  const std::uint64_t capture = pool->captures();
  const auto inner_owner = pool->order().find(owner.id());
  const auto inner_user = pool->order().find(user.id());
  if (!inner_owner || !inner_user) return nullptr;  // the capture has just ended
  const FirstMarkers first = FirstMarkers::now(device_.ledger(), owner.id(), user.id());
  void* const address = pool->allocate(bytes, *inner_owner, *inner_user);
  try {
    const std::lock_guard lock{mutex_};
    live_.insert_or_assign(address, Live{pool, capture, owner, first, {}});
  } catch (...) {
    pool->memory().deallocate(address);
    throw;
  }
  return address;
}

// Returns the inner reference of a stream that is in the capture which allocated the block; nothing
// if the stream is not in it, or the capture has ended.
std::optional<StreamRef> PoolBlocks::still_in(const Live& live, StreamId stream) {
  if (live.capture != live.pool->captures()) return {};
  return live.pool->order().find(stream);
}

std::shared_ptr<PrivatePool> PoolBlocks::deallocate(void* address, const StreamRef* stream) {
  LiveBlocks::node_type freed;
  {
    const std::lock_guard lock{mutex_};
    freed = live_.extract(address);
  }
  if (freed.empty()) return nullptr;
  std::shared_ptr<PrivatePool> pool = freed.mapped().pool;
  try {
    const Live& live = freed.mapped();
    const StreamRef on = stream == nullptr ? live.owner : *stream;
    if (stream != nullptr) refuse_other_captures("deallocate", live, on.id());
    const auto inner = live.uses.empty() ? still_in(live, on.id()) : std::nullopt;
    if (inner) {
      pool->memory().deallocate(address, *inner);
    } else {
      free_outside(address, live, on);
    }
  } catch (...) {
    const std::lock_guard lock{mutex_};
    live_.insert(std::move(freed));
    throw;
  }
  return pool;
}

// A graph that is captured into another pool would still use the block at each launch after the
// free.
void PoolBlocks::refuse_other_captures(const char* call, const Live& live, StreamId stream) const {
  const bool is_mine = live.pool->order().find(stream).has_value();
  if (is_mine || !device_.captured(stream)) return;
  throw std::invalid_argument{
      fmt::format("{}: this block is of a graph pool, and the stream is captured into another; "
                  "keep the block allocated for as long as that graph may be launched",
                  call)};
}

// Frees a block that was used outside its capture, or whose capture has ended.
void PoolBlocks::free_outside(void* address, const Live& live, StreamRef stream) {
  const Ledger& ledger = device_.ledger();
  PointSet points{Point{stream.id(), ledger.next(stream.id())}};
  std::vector<Point> uses;
  uses.reserve(live.uses.size());
  for (const StreamRef use : live.uses) uses.push_back({use.id(), ledger.next(use.id())});
  points.join_all(uses);
  for (const StreamRef use : live.uses) {
    try {
      if (ledger.is_open(use.id())) device_.mark(use);
    } catch (const DeviceError&) {  // a later marker of the stream will cover the use
    }
  }
  live.pool->free_after(address, std::move(points));
}

std::shared_ptr<PrivatePool> PoolBlocks::deallocate(void* address, Point marker) {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return nullptr;
  it->second.first_markers.require_covered(marker, address);
  PointSet points{marker};
  LiveBlocks::node_type freed = live_.extract(it);
  lock.unlock();
  std::shared_ptr<PrivatePool> pool = freed.mapped().pool;
  try {
    pool->free_after(address, std::move(points));
  } catch (...) {
    lock.lock();
    live_.insert(std::move(freed));
    throw;
  }
  return pool;
}

bool PoolBlocks::record_use(void* address, StreamRef stream) {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  Live& live = it->second;
  if (const auto inner = still_in(live, stream.id())) {
    const std::shared_ptr<PrivatePool> pool = live.pool;
    lock.unlock();
    pool->memory().record_use(address, *inner);
    return true;
  }
  refuse_other_captures("record_use", live, stream.id());
  if (stream.id() != live.owner.id()) live.uses.add(stream);
  return true;
}

bool PoolBlocks::transfer(void* address, StreamRef owner) {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  Live& live = it->second;
  const StreamRef former = live.owner;
  if (former.id() == owner.id()) return true;
  refuse_other_captures("transfer", live, owner.id());
  const auto inner = still_in(live, owner.id());
  if (inner && still_in(live, former.id())) {
    const std::shared_ptr<PrivatePool> pool = live.pool;
    lock.unlock();
    pool->memory().transfer(address, *inner);
    lock.lock();
    const auto again = live_.find(address);
    if (again != live_.end()) again->second.owner = owner;
    return true;
  }
  live.uses.add(former);
  live.uses.remove(owner.id());
  live.owner = owner;
  return true;
}

std::size_t PoolBlocks::block_size(const void* address) const {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return 0;
  const std::shared_ptr<PrivatePool> pool = it->second.pool;
  lock.unlock();
  return pool->memory().block_size(address);
}

}  // namespace millrace
