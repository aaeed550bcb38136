#include "memory/graph/graph_pools.hpp"

#include <algorithm>
#include <stdexcept>

namespace millrace {

GraphPool::Hold::~Hold() {
  const std::lock_guard lock{link->mutex};
  if (link->pools != nullptr) link->pools->unheld(pool);
}

GraphPools& GraphPool::Hold::pools() const {
  const std::lock_guard lock{link->mutex};
  if (link->pools == nullptr) throw std::logic_error{"graph pool: its allocator is gone"};
  return *link->pools;
}

GraphPools::GraphPools(GraphMemory& memory, OrderedDevice& device, const Policy& policy)
    : memory_(memory), device_(device), policy_(policy), link_(std::make_shared<GraphPoolsLink>()) {
  link_->pools = this;
}

void GraphPools::close() {
  {
    const std::lock_guard lock{link_->mutex};
    link_->pools = nullptr;
  }
  for (const auto& [stream, pool] : captured_) end_captures(pool->order().end());
  captured_.clear();
}

std::shared_ptr<GraphPool::Hold> GraphPools::make(GraphPool::HeldUntil until) {
  auto hold = std::make_shared<GraphPool::Hold>();
  hold->link = link_;
  hold->pool = std::make_shared<PrivatePool>(memory_, device_, policy_, until);
  const std::lock_guard lock{mutex_};
  pools_.push_back(hold->pool);
  any_.store(true, std::memory_order_release);
  return hold;
}

void GraphPools::begin(PrivatePool& pool, StreamRef origin) {
  pool.begin();
  try {
    join(pool, origin);
  } catch (...) {
    pool.end(false);
    throw;
  }
}

void GraphPools::join(PrivatePool& pool, StreamRef stream) {
  stream = device_.begin_capture(stream);
  bool is_taken = false;
  {
    const std::lock_guard lock{mutex_};
    is_taken = pool_of(stream.id()) != nullptr;
  }
  if (is_taken) {
    device_.end_capture(stream);
    throw std::invalid_argument{"this stream is in a capture of the allocator already"};
  }
  memory_.close_front(stream.id());
  pool.order().join(stream);
  const std::lock_guard lock{mutex_};
  const auto it = std::ranges::find(pools_, &pool, &std::shared_ptr<PrivatePool>::get);
  captured_.emplace_back(stream.id(), *it);
}

void GraphPools::end(PrivatePool& pool, bool kept) {
  {
    const std::lock_guard lock{mutex_};
    std::erase_if(captured_, [&](const auto& captured) { return captured.second.get() == &pool; });
  }
  end_captures(pool.end(kept));
  if (!kept && pool.never_ran()) end_uses(pool);
}

void GraphPools::end_captures(const std::vector<StreamRef>& streams) {
  for (const StreamRef stream : streams) {
    try {
      device_.end_capture(stream);
    } catch (const DeviceError&) {  // no marker: a later one of that stream will cover it
    }
  }
}

std::optional<StreamRef> GraphPools::in_capture(const PrivatePool& pool, StreamRef stream) {
  if (pool.order().has(stream)) return pool.order().find(device_.resolve(stream).id());
  return {};
}

void GraphPools::unheld(const std::shared_ptr<PrivatePool>& pool) {
  const std::lock_guard lock{mutex_};
  unheld_.push_back(pool);
  untidy_.store(true, std::memory_order_release);
}

// Under the lock.
std::shared_ptr<PrivatePool> GraphPools::pool_of(StreamId stream) const {
  for (const auto& [captured, pool] : captured_) {
    if (captured == stream) return pool;
  }
  return nullptr;
}

void* GraphPools::allocate(std::size_t bytes, StreamRef owner, StreamRef user) {
  std::shared_ptr<PrivatePool> pool;
  {
    const std::lock_guard lock{mutex_};
    pool = pool_of(owner.id());
    if (pool != pool_of(user.id())) {
      throw std::invalid_argument{
          "allocate: owner and first user have to be in the same capture, or in none"};
    }
  }
  if (pool == nullptr) {
    if (!device_.captured(owner.id()) && !device_.captured(user.id())) return nullptr;
    throw std::invalid_argument{
        "allocate: this stream is captured, but not into a pool of this allocator"};
  }
  const auto inner_owner = pool->order().find(owner.id());
  const auto inner_user = pool->order().find(user.id());
  if (!inner_owner || !inner_user) return nullptr;  // it has just ended
  void* const address = pool->allocate(bytes, *inner_owner, *inner_user);
  Live live{pool,
            pool->captures(),
            owner,
            FirstMarkers::now(device_.ledger(), owner.id(), user.id()),
            {}};
  const std::lock_guard lock{mutex_};
  live_.insert_or_assign(address, std::move(live));
  return address;
}

// Where the block is used within the capture that it was given out in.
std::optional<StreamRef> GraphPools::still_in(const Live& live, StreamId stream) {
  if (live.capture != live.pool->captures()) return {};
  return live.pool->order().find(stream);
}

bool GraphPools::deallocate(void* address, const StreamRef* stream) {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  const Live live = std::move(it->second);
  live_.erase(it);
  lock.unlock();
  const StreamRef on = stream == nullptr ? live.owner : *stream;
  const auto inner = live.uses.empty() ? still_in(live, on.id()) : std::nullopt;
  if (inner) {
    live.pool->memory().deallocate(address, *inner);
    return true;
  }
  PointSet points{Point{on.id(), device_.ledger().next(on.id())}};
  for (const StreamRef use : live.uses) points.join({use.id(), device_.ledger().next(use.id())});
  for (const StreamRef use : live.uses) {
    try {
      if (device_.ledger().is_open(use.id())) device_.mark(use);
    } catch (const DeviceError&) {  // no marker: a later one of that stream will cover it
    }
  }
  live.pool->free_after(address, points);
  freed_in(live.pool);
  return true;
}

bool GraphPools::deallocate(void* address, Point marker) {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  it->second.first_markers.require_covered(marker, address);
  const std::shared_ptr<PrivatePool> pool = it->second.pool;
  live_.erase(it);
  lock.unlock();
  pool->free_after(address, PointSet{marker});
  freed_in(pool);
  return true;
}

// It may have been the last live block of a pool that nobody holds.
void GraphPools::freed_in(const std::shared_ptr<PrivatePool>& pool) {
  const std::lock_guard lock{mutex_};
  if (lingering_.erase(pool.get()) == 0) return;
  unheld_.push_back(pool);
  untidy_.store(true, std::memory_order_release);
}

bool GraphPools::record_use(void* address, StreamRef stream) {
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
  const auto same = [&](const StreamRef use) { return use.id() == stream.id(); };
  if (!same(live.owner) && std::ranges::none_of(live.uses, same)) live.uses.push_back(stream);
  return true;
}

bool GraphPools::transfer(void* address, StreamRef owner) {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return false;
  Live& live = it->second;
  const StreamRef former = std::exchange(live.owner, owner);
  if (former.id() == owner.id()) return true;
  live.uses.erase_if([&](const StreamRef use) { return use.id() == owner.id(); });
  if (const auto inner = still_in(live, owner.id())) {
    const std::shared_ptr<PrivatePool> pool = live.pool;
    lock.unlock();
    pool->memory().transfer(address, *inner);
  } else {
    live.uses.push_back(former);
  }
  return true;
}

std::size_t GraphPools::block_size(const void* address) const {
  std::unique_lock lock{mutex_};
  const auto it = live_.find(address);
  if (it == live_.end()) return 0;
  const std::shared_ptr<PrivatePool> pool = it->second.pool;
  lock.unlock();
  return pool->memory().block_size(address);
}

bool GraphPools::hides(const void* address) const {
  const std::lock_guard lock{mutex_};
  return segments_.contains(address) || uses_.keeps(address);
}

void GraphPools::hide(const void* segment) {
  const std::lock_guard lock{mutex_};
  segments_.insert(segment);
}

void GraphPools::show(const void* segment) {
  const std::lock_guard lock{mutex_};
  segments_.erase(segment);
}

bool GraphPools::use(void* address, StreamId stream) {
  const std::lock_guard lock{mutex_};
  const std::shared_ptr<PrivatePool> pool = pool_of(stream);
  if (pool != nullptr) uses_.add(address, *pool);
  return pool != nullptr;
}

bool GraphPools::keep(void* address, PointSet& points) {
  const std::lock_guard lock{mutex_};
  const bool kept = uses_.keep(address, points);
  any_.store(!pools_.empty() || !uses_.empty(), std::memory_order_release);
  return kept;
}

// No graph of the pool will run again.
void GraphPools::end_uses(PrivatePool& pool) {
  const PointSet after = pool.points();
  std::vector<GraphUses::Freed> freed;
  {
    const std::lock_guard lock{mutex_};
    freed = uses_.end(pool, after);
  }
  for (const auto& [address, points] : freed) memory_.give_back(address, points);
}

void GraphPools::tidy() {
  if (!untidy_.load(std::memory_order_acquire)) return;
  std::vector<std::shared_ptr<PrivatePool>> unheld;
  {
    const std::lock_guard lock{mutex_};
    unheld.swap(unheld_);
    untidy_.store(false, std::memory_order_release);
  }
  for (const std::shared_ptr<PrivatePool>& pool : unheld) give_back(pool);
}

void GraphPools::give_back(const std::shared_ptr<PrivatePool>& pool) {
  const bool empty = pool->give_back();
  end_uses(*pool);
  if (!empty) {
    const std::lock_guard lock{mutex_};
    lingering_.insert(pool.get());
    return;
  }
  pool->close();
  const std::lock_guard lock{mutex_};
  std::erase(pools_, pool);
  any_.store(!pools_.empty() || !uses_.empty(), std::memory_order_release);
}

GraphPoolStatistics GraphPools::statistics() const {
  std::vector<std::shared_ptr<PrivatePool>> pools;
  {
    const std::lock_guard lock{mutex_};
    pools = pools_;
  }
  GraphPoolStatistics all;
  for (const auto& pool : pools) {
    const GraphPoolStatistics one = pool->statistics();
    all.pools += one.pools;
    all.capturing += one.capturing;
    all.reserved += one.reserved;
    all.allocated += one.allocated;
  }
  return all;
}

}  // namespace millrace
