#include "memory/graph/private_pool.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "millrace/round_up.hpp"

namespace millrace {
namespace {

// Returns the policy of a pool. It is the general allocator's, without waits, because no wait is
// inserted into a graph. If sharing is not PyTorch's, segments serve all sizes; they are small at
// first, and later have an eighth of the pool's bytes.
Policy for_pool(Policy policy) {
  if (policy.sharing == Sharing::wait_before_grow) policy.sharing = Sharing::ordered;
  policy.growable_ranges = false;
  policy.slack = 0;
  policy.collect_threshold = 0;
  if (policy.sharing == Sharing::own_stream) return policy;
  policy.small_limit = policy.medium_limit = 0;
  policy.large_remainder = policy.granule;
  policy.large_segment_least = std::size_t{2} << 20;
  policy.large_segment_most = std::size_t{1} << 30;
  return policy;
}

}  // namespace

PrivatePool::PrivatePool(GraphMemory& memory, OrderedDevice& device, const Policy& policy,
                         GraphPool::HeldUntil until)
    : device_(device),
      nominal_(device, "graph pool"),
      until_(until),
      source_(memory, nominal_.ref()),
      order_(policy.sharing == Sharing::own_stream),
      inner_(order_.device(), source_, for_pool(policy)) {}

void PrivatePool::begin() {
  if (capturing_.exchange(true)) {
    throw std::logic_error{
        "this pool is in a capture already: captures that overlap have one each"};
  }
  try {
    device_.poll();
    settle();
    (void)source_.acquired();
  } catch (...) {
    capturing_ = false;
    throw;
  }
  source_.set_effort(GraphMemory::Effort::quiet);
  ++captures_;
  order_.begin();
}

void PrivatePool::end(bool kept) {
  struct Over {
    std::atomic<bool>& capturing;
    ~Over() { capturing = false; }
  } const over{capturing_};
  source_.set_effort(GraphMemory::Effort::ask);
  if (kept) {
    const std::lock_guard lock{mutex_};
    ran_ = true;
  }
  order_.end();
  if (!kept) drop_unused();
}

bool PrivatePool::never_ran() {
  const std::lock_guard lock{mutex_};
  return !ran_;
}

// Gives back the free segments that were acquired for an abandoned capture: no graph ever used
// them.
void PrivatePool::drop_unused() {
  PointSet freed_outside;
  {
    const std::lock_guard lock{mutex_};
    freed_outside.assign(launches_);
  }
  PoolSource::GivingBack giving_back{source_, freed_outside};
  for (void* const base : source_.acquired()) {
    giving_back.release(base);
    inner_.release_segment(base);
  }
}

void* PrivatePool::allocate(std::size_t bytes, StreamRef owner, StreamRef user) {
  for (;;) {
    try {
      return inner_.allocate(bytes, owner, user);
    } catch (const out_of_memory&) {  // again after `add`, whose segment another thread may take
    }
    add(bytes, owner, user);
  }
}

// Adds a segment for this request and no more, with all that can be done to get it.
void PrivatePool::add(std::size_t bytes, StreamRef owner, StreamRef user) {
  const Policy& policy = inner_.policy();
  const bool fixed_sizes = policy.large_segment_most == 0;
  const std::size_t multiple = std::max(policy.segment_multiple, source_.granularity());
  const std::size_t largest = std::numeric_limits<std::ptrdiff_t>::max();
  std::size_t needed = bytes;  // refused by the general allocator if it is too large to be rounded
  if (bytes <= largest - multiple) {
    const std::size_t rounded = policy.round(bytes);
    needed = fixed_sizes ? policy.segment_for(rounded, 0) : round_up(rounded, multiple);
  }
  source_.add(needed);
  if (fixed_sizes) return;  // the next request acquires exactly this segment
  try {
    (void)inner_.reserve(bytes, policy.sharing == Sharing::own_stream ? owner : user);
  } catch (const out_of_memory&) {
  }
}

void PrivatePool::free_after(void* address, PointSet points) {
  const std::lock_guard lock{mutex_};
  outside_.push_back({address, std::move(points)});
}

bool PrivatePool::complete(const PointSet& points) const {
  return std::ranges::all_of(points,
                             [&](const Point point) { return device_.ledger().completed(point); });
}

// Memory that was used outside of captures serves captures only after that use is complete, because
// it is not known yet on which stream a graph will be launched.
void PrivatePool::settle() {
  std::vector<void*> ended;
  {
    const std::lock_guard lock{mutex_};
    ended.reserve(outside_.size());
    std::erase_if(outside_, [&](const Outside& freed) {
      const bool is_complete = complete(freed.points);
      if (is_complete) ended.push_back(freed.address);
      return is_complete;
    });
  }
  for (void* const address : ended) inner_.deallocate(address);
  order_.device().synchronize();
}

void PrivatePool::reserve(std::size_t bytes) {
  if (capturing_) throw std::logic_error{"reserve: before the capture begins"};
  {
    const NominalStream nobody{order_.device(), "reserve"};
    inner_.deallocate(allocate(bytes, nobody.ref(), nobody.ref()));
  }
  order_.device().synchronize();
}

void PrivatePool::launched(StreamRef stream) {
  stream = device_.resolve(stream);
  const Point point{stream.id(), device_.ledger().next(stream.id())};
  {
    const std::lock_guard lock{mutex_};
    any_launch_ = true;
    launches_.join(point);
    forget_complete_launches();
  }
  if (!device_.attached(stream.id())) device_.mark(stream);  // it may be destroyed at any time
}

// The points of destroyed streams must not pile up. The set is searched only after it has doubled,
// so the cost is spread over as many launches. Called under the lock.
void PrivatePool::forget_complete_launches() {
  if (launches_.size() < many_launches_) return;
  launches_.erase_if([&](const Point point) { return device_.ledger().completed(point); });
  many_launches_ = std::max(kFewLaunches, launches_.size() * 2);
}

// Returns whether graphs may have been launched without a report. Called under the lock.
bool PrivatePool::launches_untold() const {
  return ran_ && !any_launch_ && until_ == GraphPool::HeldUntil::destroyed;
}

PointSet PrivatePool::points() {
  PointSet points;
  const std::lock_guard lock{mutex_};
  for (const Point point : launches_) {
    if (!device_.ledger().completed(point)) points.join(point);
  }
  if (launches_untold()) {
    points.join({nominal_.ref().id(), device_.ledger().next(nominal_.ref().id())});
  }
  return points;
}

bool PrivatePool::give_back() {
  for (;;) {
    std::unique_lock lock{mutex_};
    if (outside_.empty()) break;
    launches_.join(outside_.back().points);
    void* const address = outside_.back().address;
    outside_.pop_back();
    lock.unlock();
    inner_.deallocate(address);
  }
  order_.device().synchronize();
  PoolSource::GivingBack giving_back{source_, points()};
  for (void* const base : source_.segments()) giving_back.release(base);
  inner_.trim();
  return source_.bytes() == 0;
}

void PrivatePool::close() {
  {
    const std::lock_guard lock{mutex_};
    nominal_.close(!launches_untold());
  }
  if (capturing_.exchange(false)) order_.end();
}

GraphPoolStatistics PrivatePool::statistics() {
  const MemoryStatistics inner = inner_.statistics();
  return {.pools = 1,
          .capturing = capturing_ ? std::size_t{1} : 0,
          .reserved = source_.bytes(),
          .allocated = inner.bytes.allocated.current};
}

}  // namespace millrace
