#include "device/virtual/driver_pool.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "millrace/round_up.hpp"

namespace millrace::simulation {
namespace {

constexpr std::size_t kAlignment = 512;

}  // namespace

void join(FreeClock& clock, const FreeClock& other) {
  for (const auto& [stream, frees] : other) {
    std::uint64_t& known = clock[stream];
    known = std::max(known, frees);
  }
}

DriverPool::DriverPool(DeviceMemory& memory, std::size_t granularity,
                       const DriverPoolPolicy& policy)
    : memory_(memory), granularity_(granularity), policy_(policy) {}

bool DriverPool::usable(const Free& free, const StreamState& stream) const {
  if (free.stream == stream.id) return true;
  if (policy_.allow_opportunistic && free.item->done()) return true;
  if (!policy_.follow_event_dependencies) return false;
  const auto known = stream.frees_before.find(free.stream);
  return known != stream.frees_before.end() && known->second >= free.number;
}

bool DriverPool::usable(const Range& range, const StreamState& stream) const {
  return std::all_of(range.frees.begin(), range.frees.end(),
                     [&](const Free& free) { return usable(free, stream); });
}

bool DriverPool::same_segment(const std::byte* a, const std::byte* b) const {
  const auto segment_of = [&](const std::byte* address) {
    return std::prev(segments_.upper_bound(const_cast<std::byte*>(address)));
  };
  return segment_of(a) == segment_of(b);
}

template <typename Usable>
DriverPool::Run DriverPool::best_run(std::size_t bytes, Usable usable) {
  Run best{free_.end(), 0};
  Run run{free_.end(), 0};
  const std::byte* end = nullptr;
  const auto close = [&] {
    if (run.bytes >= bytes && (best.bytes == 0 || run.bytes < best.bytes)) best = run;
    run.bytes = 0;
    end = nullptr;
  };
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const bool adjoins = range->first == end && same_segment(run.first->first, range->first);
    if (run.bytes > 0 && !adjoins) close();
    if (!usable(range->second)) {
      close();
      continue;
    }
    if (run.bytes == 0) run.first = range;
    run.bytes += range->second.bytes;
    end = range->first + range->second.bytes;
  }
  close();
  return best;
}

DriverPool::Grant DriverPool::carve(Run run, std::size_t bytes, const StreamState& stream) {
  Grant grant;
  grant.address = run.first->first;
  std::size_t left = bytes;
  for (auto range = run.first; left > 0;) {
    for (const Free& free : range->second.frees) {
      if (!usable(free, stream)) grant.after.push_back(free.item);
    }
    const std::size_t used = std::min(left, range->second.bytes);
    left -= used;
    Range rest{range->second.bytes - used, std::move(range->second.frees)};
    std::byte* const rest_at = range->first + used;
    range = free_.erase(range);
    if (rest.bytes > 0) free_.emplace(rest_at, std::move(rest));
  }
  live_.emplace(grant.address, bytes);
  info_.used += bytes;
  info_.used_high = std::max(info_.used_high, info_.used);
  return grant;
}

bool DriverPool::grow(std::size_t bytes) {
  std::size_t size = round_up(bytes, granularity_);
  void* address = memory_.allocate(size);
  if (address == nullptr) {
    size = round_up(bytes, memory_.granularity());
    address = memory_.allocate(size);
  }
  if (address == nullptr) return false;
  size = round_up(size, memory_.granularity());
  auto* const base = static_cast<std::byte*>(address);
  segments_.emplace(base, size);
  free_.emplace(base, Range{size, {}});
  info_.reserved += size;
  info_.reserved_high = std::max(info_.reserved_high, info_.reserved);
  return true;
}

DriverPool::Grant DriverPool::allocate(std::size_t bytes, const StreamState& stream) {
  if (bytes > memory_.total()) return {};
  const std::size_t size = round_up(bytes, kAlignment);
  const auto ready = [&](const Range& range) { return usable(range, stream); };
  Run run = best_run(size, ready);
  if (run.bytes == 0 && grow(size)) run = best_run(size, ready);
  if (run.bytes == 0 && policy_.allow_internal_dependencies) {
    run = best_run(size, [](const Range&) { return true; });
  }
  return run.bytes == 0 ? Grant{} : carve(run, size, stream);
}

void DriverPool::free(const void* address, StreamState& stream, std::shared_ptr<WorkItem> item) {
  const auto live = live_.find(address);
  const std::size_t bytes = live->second;
  live_.erase(live);
  info_.used -= bytes;
  Range range{bytes, {}};
  if (item != nullptr) {
    range.frees.push_back({std::move(item), stream.id, ++stream.frees});
    stream.frees_before[stream.id] = stream.frees;
  }
  merge(free_.emplace(static_cast<std::byte*>(const_cast<void*>(address)), std::move(range)).first);
}

// Two ranges merge if one stream freed both last: its later free covers the earlier one.
bool DriverPool::merge_with_next(Ranges::iterator range) {
  const auto next = std::next(range);
  if (next == free_.end() || range->first + range->second.bytes != next->first ||
      !same_segment(range->first, next->first)) {
    return false;
  }
  std::vector<Free>& mine = range->second.frees;
  std::vector<Free>& theirs = next->second.frees;
  const bool mergeable = mine.empty() ? theirs.empty()
                                      : mine.size() == 1 && theirs.size() == 1 &&
                                            mine.front().stream == theirs.front().stream;
  if (!mergeable) return false;
  if (!mine.empty() && mine.front().number < theirs.front().number) mine = std::move(theirs);
  range->second.bytes += next->second.bytes;
  free_.erase(next);
  return true;
}

void DriverPool::merge(Ranges::iterator range) {
  merge_with_next(range);
  if (range != free_.begin()) merge_with_next(std::prev(range));
}

void DriverPool::trim(std::size_t keep) {
  const auto executed = [](const Range& range) {
    return std::all_of(range.frees.begin(), range.frees.end(),
                       [](const Free& free) { return free.item->done(); });
  };
  for (auto segment = segments_.begin(); segment != segments_.end() && info_.reserved > keep;) {
    const auto [base, size] = *segment;
    std::size_t idle = 0;
    const auto first = free_.lower_bound(base);
    auto last = first;
    for (; last != free_.end() && last->first < base + size && executed(last->second); ++last) {
      idle += last->second.bytes;
    }
    if (idle != size) {
      ++segment;
      continue;
    }
    free_.erase(first, last);
    memory_.free(base);
    info_.reserved -= size;
    segment = segments_.erase(segment);
  }
}

}  // namespace millrace::simulation
