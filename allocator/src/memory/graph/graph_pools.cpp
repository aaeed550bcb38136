#include "memory/graph/graph_pools.hpp"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

namespace millrace {

GraphPool::Hold::~Hold() {
  const std::lock_guard lock{link->mutex};
  if (link->pools != nullptr && pool != nullptr) link->pools->unheld(*pool);
}

GraphPools& GraphPool::Hold::pools() const {
  const std::lock_guard lock{link->mutex};
  if (link->pools == nullptr) throw std::logic_error{"graph pool: its allocator is gone"};
  return *link->pools;
}

GraphPools::GraphPools(GraphMemory& memory, OrderedDevice& device, const Policy& policy)
    : memory_(memory),
      device_(device),
      policy_(policy),
      link_(std::make_shared<GraphPoolsLink>()),
      blocks_(device) {
  link_->pools = this;
}

// Holders keep their pools, but not the allocator and the device. The memory of the pools goes with
// the allocator: nothing is given back, and no observer is notified.
void GraphPools::close() noexcept {
  {
    const std::lock_guard lock{link_->mutex};
    link_->pools = nullptr;
  }
  for (const auto& [key, known] : pools_) {
    end_on_device(*known.pool);
    try {
      known.pool->close();
    } catch (const std::exception&) {  // the ledger keeps an entry
    }
  }
  unheld_ = nullptr;
  pools_.clear();
}

std::shared_ptr<GraphPool::Hold> GraphPools::make(GraphPool::HeldUntil until) {
  auto hold = std::make_shared<GraphPool::Hold>();
  hold->link = link_;
  hold->pool = std::make_shared<PrivatePool>(memory_, device_, policy_, until);
  const std::lock_guard lock{mutex_};
  pools_.try_emplace(hold->pool.get(), Pool{hold->pool});
  note_any();
  return hold;
}

// Called under the lock.
void GraphPools::note_any() noexcept {
  any_.store(!pools_.empty() || !uses_.empty(), std::memory_order_release);
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
  std::list<Captured> joining{{stream, nullptr}};
  stream = joining.front().stream = device_.begin_capture(stream);
  const auto joined = joining.begin();
  try {
    {
      const std::lock_guard lock{mutex_};
      if (pool_of(stream.id()) != nullptr) {
        throw std::invalid_argument{"this stream is in a capture of the allocator already"};
      }
      joined->pool = pools_.at(&pool).pool;
      captured_.splice(captured_.end(), joining);
    }
    memory_.close_front(stream.id());
    pool.order().join(stream);
  } catch (...) {
    {
      const std::lock_guard lock{mutex_};
      if (joining.empty()) joining.splice(joining.end(), captured_, joined);
    }
    end_capture(stream);
    throw;
  }
}

void GraphPools::end(PrivatePool& pool, bool kept) {
  end_on_device(pool);
  std::exception_ptr failure;
  if (!kept && pool.never_ran()) {
    try {
      end_uses(pool);  // before another capture can begin and use more
    } catch (...) {
      failure = std::current_exception();
    }
  }
  pool.end(kept);
  if (failure) std::rethrow_exception(failure);
}

// Ends the captures of all streams of the pool. For other threads they end together.
void GraphPools::end_on_device(const PrivatePool& pool) noexcept {
  std::list<Captured> ended;
  {
    const std::lock_guard lock{mutex_};
    for (auto it = captured_.begin(); it != captured_.end();) {
      const auto captured = it++;
      if (captured->pool.get() == &pool) ended.splice(ended.end(), captured_, captured);
    }
  }
  for (const Captured& captured : ended) end_capture(captured.stream);
}

void GraphPools::end_capture(StreamRef stream) noexcept {
  try {
    device_.end_capture(stream);
  } catch (const std::exception&) {  // no marker: a later marker of the stream covers the work
  }
}

std::optional<StreamRef> GraphPools::in_capture(const PrivatePool& pool, StreamRef stream) {
  if (pool.order().has(stream)) return pool.order().find(device_.resolve(stream).id());
  return {};
}

// Called under the lock.
std::shared_ptr<PrivatePool> GraphPools::pool_of(StreamId stream) const {
  for (const Captured& captured : captured_) {
    if (captured.stream.id() == stream) return captured.pool;
  }
  return nullptr;
}

// Returns nullptr if neither stream is captured.
std::shared_ptr<PrivatePool> GraphPools::require_one_pool(StreamId owner, StreamId user) const {
  std::unique_lock lock{mutex_};
  std::shared_ptr<PrivatePool> pool = pool_of(owner);
  if (pool != pool_of(user)) {
    throw std::invalid_argument{
        "allocate: owner and first user have to be in the same capture, or in none"};
  }
  lock.unlock();
  if (pool == nullptr && (device_.captured(owner) || device_.captured(user))) {
    throw std::invalid_argument{
        "allocate: this stream is captured, but not into a pool of this allocator"};
  }
  return pool;
}

void* GraphPools::allocate(std::size_t bytes, StreamRef owner, StreamRef user) {
  const std::shared_ptr<PrivatePool> pool = require_one_pool(owner.id(), user.id());
  return pool == nullptr ? nullptr : blocks_.allocate(pool, bytes, owner, user);
}

bool GraphPools::deallocate(void* address, const StreamRef* stream) {
  const std::shared_ptr<PrivatePool> pool = blocks_.deallocate(address, stream);
  if (pool != nullptr) freed_in(*pool);
  return pool != nullptr;
}

bool GraphPools::deallocate(void* address, Point marker) {
  const std::shared_ptr<PrivatePool> pool = blocks_.deallocate(address, marker);
  if (pool != nullptr) freed_in(*pool);
  return pool != nullptr;
}

bool GraphPools::hides(const void* address) const {
  const std::lock_guard lock{mutex_};
  return segments_.contains(address) || uses_.keeps(address);
}

bool GraphPools::may_use(const void* address) const {
  const std::lock_guard lock{mutex_};
  return segments_.contains(address) || uses_.knows(address);
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
  note_any();
  return kept;
}

// Frees the general memory that was kept only for graphs of the pool: none of them will run again.
void GraphPools::end_uses(PrivatePool& pool) {
  const PointSet after = pool.points();
  std::vector<GraphUses::Freed> freed;
  {
    const std::lock_guard lock{mutex_};
    freed = uses_.end(pool, after);
  }
  for (const auto& [address, points] : freed) memory_.give_back(address, points);
}

void GraphPools::unheld(const PrivatePool& pool) noexcept {
  const std::lock_guard lock{mutex_};
  const auto it = pools_.find(&pool);
  if (it != pools_.end()) to_be_given_back(it->second);
}

// Called after a free, which may be that of the last live block of a pool without a holder.
void GraphPools::freed_in(const PrivatePool& pool) noexcept {
  const std::lock_guard lock{mutex_};
  const auto it = pools_.find(&pool);
  if (it != pools_.end() && it->second.held == Held::lingering) to_be_given_back(it->second);
}

// Called under the lock.
void GraphPools::to_be_given_back(Pool& pool) noexcept {
  pool.held = Held::no;
  pool.next_unheld = std::exchange(unheld_, &pool);
  untidy_.store(true, std::memory_order_release);
}

// The pool is `lingering` afterwards, so the next free in it queues it again.
GraphPools::Pool* GraphPools::next_to_give_back() noexcept {
  const std::lock_guard lock{mutex_};
  Pool* const pool = unheld_;
  if (pool == nullptr) {
    untidy_.store(false, std::memory_order_release);
    return nullptr;
  }
  unheld_ = std::exchange(pool->next_unheld, nullptr);
  pool->held = Held::lingering;
  return pool;
}

void GraphPools::tidy() {
  if (!untidy_.load(std::memory_order_acquire)) return;
  const std::lock_guard tidying{tidying_};
  while (Pool* const pool = next_to_give_back()) {
    try {
      give_back(*pool);
    } catch (...) {
      freed_in(*pool->pool);  // queued again
      throw;
    }
  }
}

// Called by one thread at a time, under `tidying_`.
void GraphPools::give_back(Pool& known) {
  const std::shared_ptr<PrivatePool> pool = known.pool;
  const bool is_empty = pool->give_back();
  end_uses(*pool);
  if (!is_empty) return;
  pool->close();
  const std::lock_guard lock{mutex_};
  if (known.held == Held::lingering) pools_.erase(pool.get());
  note_any();
}

GraphPoolStatistics GraphPools::statistics() const {
  std::vector<std::shared_ptr<PrivatePool>> pools;
  {
    const std::lock_guard lock{mutex_};
    for (const auto& [key, known] : pools_) pools.push_back(known.pool);
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
