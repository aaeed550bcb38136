#include "interop/torch/pools.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace millrace::torch {

Pools::Pools(OrderedDevice& order, Book& book, Policy policy,
             std::function<std::size_t()> give_back)
    : order_(order), book_(book), policy_(std::move(policy)), give_back_(std::move(give_back)) {}

Pools::Entry& Pools::entry(TorchPoolId id) {
  const auto found = pools_.find(id);
  if (found == pools_.end()) {
    throw std::invalid_argument{"no pool (" + std::to_string(id.first) + ", " +
                                std::to_string(id.second) + ")"};
  }
  return found->second;
}

void Pools::use(TorchPoolId id, std::shared_ptr<SegmentSource> source) {
  const std::lock_guard lock{mutex_};
  Entry& entry = pools_[id];
  ++entry.uses;
  if (source != nullptr && entry.pool == nullptr) entry.source = std::move(source);
}

void Pools::release(TorchPoolId id) {
  const std::lock_guard lock{mutex_};
  Entry& known = entry(id);
  if (known.uses == 0) throw std::invalid_argument{"the pool has no uses to release"};
  --known.uses;
}

int Pools::uses(TorchPoolId id) const {
  const std::lock_guard lock{mutex_};
  const auto found = pools_.find(id);
  return found == pools_.end() ? 0 : found->second.uses;
}

void Pools::set_no_split(TorchPoolId id) {
  const std::lock_guard lock{mutex_};
  Entry& known = entry(id);
  if (known.pool != nullptr && !known.no_split) {
    throw std::invalid_argument{"the pool has served requests already, and has split blocks"};
  }
  known.no_split = true;
}

void Pools::begin_route(TorchPoolId id, Filter filter) {
  const std::lock_guard lock{mutex_};
  ++pools_[id].uses;
  routes_.push_back({id, std::make_shared<const Filter>(std::move(filter))});
  any_routes_ = true;
}

void Pools::end_route(TorchPoolId id) {
  std::shared_ptr<Pool> pool;
  {
    const std::lock_guard lock{mutex_};
    const auto newest = std::find_if(routes_.rbegin(), routes_.rend(),
                                     [&](const Route& route) { return route.id == id; });
    if (newest == routes_.rend()) throw std::invalid_argument{"no allocation goes to the pool"};
    routes_.erase(std::next(newest).base());
    any_routes_ = !routes_.empty();
    pool = entry(id).pool;
  }
  if (pool != nullptr) pool->poll_capture();
}

// Filters run without the lock, because they may call the driver.
Pools::Routed Pools::find(CUstream_st* stream) {
  if (!any_routes_.load(std::memory_order_acquire)) return {};
  std::vector<Route> routes;
  {
    const std::lock_guard lock{mutex_};
    routes = routes_;
  }
  for (auto route = routes.rbegin(); route != routes.rend(); ++route) {
    if ((*route->filter)(stream)) return {route->id, made(route->id)};
  }
  return {};
}

std::shared_ptr<Pool> Pools::made(TorchPoolId id) {
  const std::lock_guard lock{mutex_};
  Entry& known = entry(id);
  if (known.pool == nullptr) {
    Policy policy = policy_;
    if (known.no_split) {
      policy.growable_ranges = false;
      policy.max_split = 0;
      policy.small_limit = 0;
      policy.large_segment_least = policy.large_segment_most = 0;
      policy.medium_limit = 0;
    }
    known.pool = std::make_shared<Pool>(id, order_, book_, policy, known.source);
    known.pool->caching().on_out_of_memory([this](std::size_t) { return give_back_() != 0; });
  }
  return known.pool;
}

std::vector<std::shared_ptr<Pool>> Pools::all() const {
  const std::lock_guard lock{mutex_};
  std::vector<std::shared_ptr<Pool>> found;
  for (const auto& [id, entry] : pools_) {
    if (entry.pool != nullptr) found.push_back(entry.pool);
  }
  return found;
}

std::shared_ptr<Pool> Pools::find(TorchPoolId id) const {
  const std::lock_guard lock{mutex_};
  const auto found = pools_.find(id);
  return found == pools_.end() ? nullptr : found->second.pool;
}

void Pools::end_unused() {
  std::vector<std::shared_ptr<Pool>>
      ended;  // destroyed without the lock, since that waits for the GPU
  const std::lock_guard lock{mutex_};
  std::erase_if(pools_, [&](auto& pool) {
    if (pool.second.uses != 0 || book_.live_blocks(pool.first) != 0) return false;
    ended.push_back(std::move(pool.second.pool));
    return true;
  });
}

}  // namespace millrace::torch
