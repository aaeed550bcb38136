#include "memory/graph/private_pool.hpp"

#include <algorithm>
#include <stdexcept>

namespace millrace {
namespace {

// The general allocator's choices, but for these: no wait is inserted in a graph, memory comes in
// segments that begin small and become an eighth of what there is, and they serve all sizes.
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
      nominal_(device.open_nominal("graph pool")),
      until_(until),
      source_(memory, nominal_),
      order_(policy.sharing == Sharing::own_stream),
      inner_(order_.device(), source_, for_pool(policy)) {
  inner_.on_out_of_memory([this](std::size_t bytes) {
    const Policy& chosen = inner_.policy();
    const bool fixed = chosen.large_segment_most == 0;
    source_.press(fixed ? chosen.segment_for(bytes, 0) : bytes);
    return false;
  });
}

PrivatePool::~PrivatePool() = default;

void PrivatePool::begin() {
  if (capturing_.exchange(true)) {
    throw std::logic_error{
        "this pool is in a capture already: captures that overlap have one each"};
  }
  try {
    device_.poll();
    settle();
  } catch (...) {
    capturing_ = false;
    throw;
  }
  (void)source_.acquired();
  source_.set_effort(GraphMemory::Effort::quiet);
  ++captures_;
  order_.begin();
}

std::vector<StreamRef> PrivatePool::end(bool kept) {
  std::vector<StreamRef> streams = order_.end();
  source_.set_effort(GraphMemory::Effort::ask);
  if (kept) {
    const std::lock_guard lock{mutex_};
    ran_ = true;
  } else {
    drop_unused();
  }
  capturing_ = false;
  return streams;
}

bool PrivatePool::never_ran() {
  const std::lock_guard lock{mutex_};
  return !ran_;
}

// What was acquired for a capture that came to nothing, and is free: no graph ever used it.
void PrivatePool::drop_unused() {
  PointSet freed_outside;
  {
    const std::lock_guard lock{mutex_};
    freed_outside.assign(launches_);
  }
  source_.give_back_after(freed_outside);
  for (void* const base : source_.acquired()) {
    if (!source_.give_back_parked(base)) inner_.release_segment(base);
  }
  source_.keep();
}

void* PrivatePool::allocate(std::size_t bytes, StreamRef owner, StreamRef user) {
  try {
    void* const address = inner_.allocate(bytes, owner, user);
    (void)source_.relax();
    return address;
  } catch (const out_of_memory&) {
    if (const std::exception_ptr failure = source_.relax()) std::rethrow_exception(failure);
    throw;
  } catch (...) {
    (void)source_.relax();
    throw;
  }
}

void PrivatePool::free_after(void* address, const PointSet& points) {
  const std::lock_guard lock{mutex_};
  outside_.emplace_back(address, PointSet{});
  outside_.back().second.assign(points);
}

// Memory that was used outside serves captures once that is complete: where a graph is launched is
// not known yet.
void PrivatePool::settle() {
  std::vector<void*> complete;
  {
    const std::lock_guard lock{mutex_};
    std::erase_if(outside_, [&](const auto& freed) {
      const bool done = std::ranges::all_of(
          freed.second, [&](const Point point) { return device_.ledger().completed(point); });
      if (done) complete.push_back(freed.first);
      return done;
    });
  }
  for (void* const address : complete) inner_.deallocate(address);
  order_.device().synchronize();
}

void PrivatePool::reserve(std::size_t bytes) {
  if (capturing_) throw std::logic_error{"reserve: before the capture begins"};
  const StreamRef nobody = order_.device().open_nominal("reserve");
  try {
    inner_.deallocate(allocate(bytes, nobody, nobody));
  } catch (...) {
    order_.device().close_nominal(nobody, true);
    throw;
  }
  order_.device().close_nominal(nobody, true);
  order_.device().synchronize();
}

void PrivatePool::launched(StreamRef stream) {
  stream = device_.resolve(stream);
  const Point point{stream.id(), device_.ledger().next(stream.id())};
  {
    const std::lock_guard lock{mutex_};
    launches_.join(point);
    any_launch_ = true;
  }
  if (!device_.attached(stream.id())) device_.mark(stream);  // who knows how long it lives
}

PointSet PrivatePool::points() {
  PointSet points;
  const std::lock_guard lock{mutex_};
  points.assign(launches_);
  if (ran_ && !any_launch_ && until_ == GraphPool::HeldUntil::destroyed) {
    points.join({nominal_.id(), device_.ledger().next(nominal_.id())});
  }
  return points;
}

bool PrivatePool::give_back() {
  std::vector<std::pair<void*, PointSet>> freed;
  {
    const std::lock_guard lock{mutex_};
    freed.swap(outside_);
    for (const auto& [address, points] : freed) launches_.join(points);
  }
  for (const auto& [address, points] : freed) inner_.deallocate(address);
  order_.device().synchronize();
  const PointSet after = points();
  source_.give_back_after(after);
  for (void* const base : source_.parked()) source_.give_back_parked(base);
  inner_.trim();
  source_.keep();
  return source_.bytes() == 0;
}

void PrivatePool::close() {
  const std::lock_guard lock{mutex_};
  const bool unknown = ran_ && !any_launch_ && until_ == GraphPool::HeldUntil::destroyed;
  device_.close_nominal(nominal_, !unknown);
}

GraphPoolStatistics PrivatePool::statistics() {
  const MemoryStatistics inner = inner_.statistics();
  return {.pools = 1,
          .capturing = capturing_ ? std::size_t{1} : 0,
          .reserved = source_.bytes(),
          .allocated = inner.bytes.allocated.current};
}

}  // namespace millrace
