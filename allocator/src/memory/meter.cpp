#include "memory/meter.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "ordering/steps.hpp"

namespace millrace {
namespace {

// With more streams than this, the meter forgets streams that own no bytes. So streams that are
// used once cost nothing later.
constexpr std::size_t kStreamsKept = 64;

}  // namespace

void ScopedPeaks::Peaks::raise(const Peaks& other) noexcept {
  requested = std::max(requested, other.requested);
  allocated = std::max(allocated, other.allocated);
  active = std::max(active, other.active);
  reserved = std::max(reserved, other.reserved);
  cached = std::max(cached, other.cached);
}

ScopeId ScopedPeaks::open(const MemoryGauges& now) {
  newest_ = &scopes_.emplace_hint(scopes_.end(), next_, current(now))->second;
  return {next_++};
}

ScopedPeaks::Peaks ScopedPeaks::since(ScopeId scope) const {
  auto it = scopes_.find(scope.value);
  if (it == scopes_.end()) throw std::invalid_argument{"peaks: this scope is not open"};
  Peaks all;
  for (; it != scopes_.end(); ++it) {
    ordering::count_steps(1);
    all.raise(it->second);
  }
  return all;
}

void ScopedPeaks::close(ScopeId scope) {
  const auto it = scopes_.find(scope.value);
  if (it == scopes_.end()) return;
  if (it != scopes_.begin()) std::prev(it)->second.raise(it->second);
  scopes_.erase(it);
  newest_ = scopes_.empty() ? nullptr : &std::prev(scopes_.end())->second;
}

namespace {

std::size_t raised(std::size_t value, std::ptrdiff_t change) {
  return value + static_cast<std::size_t>(change);
}

void add_to(Gauge& gauge, const Tally::Change& change) {
  gauge.peak = std::max(gauge.peak, raised(gauge.current, change.highest));
  gauge.current = raised(gauge.current, change.now);
}

}  // namespace

// Computes peaks as if no other stream had allocated or freed since the tally was last added.
void Meter::add(Tally& tally) {
  if (tally.empty()) {
    tally.know_tags(tags_.size());
    return;
  }
  const std::size_t reserved = all_.reserved.current, active = all_.active.current;
  const std::size_t least_active = raised(active, tally.allocated.lowest);
  const ScopedPeaks::Peaks peaks{
      .requested = raised(all_.requested.current, tally.requested.highest),
      .allocated = raised(all_.allocated.current, tally.allocated.highest),
      .active = raised(active, tally.allocated.highest),
      .reserved = reserved,
      .cached = reserved > least_active ? reserved - least_active : 0};
  scopes_.see(peaks);
  all_.cached.peak = std::max(all_.cached.peak, peaks.cached);
  add_to(all_.requested, tally.requested);
  add_to(all_.allocated, tally.allocated);
  add_to(all_.active, tally.allocated);
  changed();
  for (std::size_t i = 0; i < tally.tags.size(); ++i) add_to(tags_[i].allocated, tally.tags[i]);
  counts_.allocations += tally.allocations;
  counts_.served_own += tally.allocations - tally.searched;
  counts_.frees += tally.frees;
  live_ += static_cast<std::size_t>(tally.allocations - tally.frees);
  tally.clear();
  tally.know_tags(tags_.size());
}

void Meter::add(StreamId stream, Tally::Change& share) {
  if (share.empty()) return;
  add_to(gauge_of(stream), share);
  leave(stream, 0);
  share = {};
}

void Meter::moved(std::size_t bytes, StreamId from, StreamId to) {
  leave(from, bytes);
  gauge_of(to).add(bytes);
}

// A front reports late: a later stream of the slot may own blocks when the changes of an earlier
// one are added.
Gauge& Meter::new_gauge_of(StreamId stream) {
  if (stream.slot >= streams_.size()) streams_.resize(stream.slot + std::size_t{1});
  StreamShare& share = streams_[stream.slot];
  if (share.stream.generation > stream.generation) return former_[stream];
  const auto former = former_.find(stream);  // a later stream of the slot was forgotten meanwhile
  if (former != former_.end()) return former->second;
  if (!share.stream.valid()) ++shares_;
  if (share.allocated.current > 0) former_[share.stream] = share.allocated;
  share = {stream, {}};
  return share.allocated;
}

void Meter::leave(StreamId stream, std::size_t bytes) {
  StreamShare& share = streams_[stream.slot];
  if (share.stream != stream) {
    const auto it = former_.find(stream);
    it->second.subtract(bytes);
    if (it->second.current == 0) former_.erase(it);
    return;
  }
  share.allocated.subtract(bytes);
  if (share.allocated.current > 0 || shares_ <= kStreamsKept) return;
  share = {};
  --shares_;
}

void Meter::drained(std::size_t bytes) {
  all_.active.subtract(bytes);
  changed();
}

void Meter::draining(std::size_t bytes) {
  all_.active.add(bytes);
  changed();
}

void Meter::reserved(std::size_t bytes) {
  all_.reserved.add(bytes);
  changed();
  ++counts_.segments_acquired;
}

void Meter::released(std::size_t bytes) {
  all_.reserved.subtract(bytes);
  changed();
  ++counts_.segments_released;
}

Tag Meter::tag(std::string_view name) {
  if (const auto known = tag_numbers_.find(name); known != tag_numbers_.end()) {
    return {known->second};
  }
  if (tags_.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw std::length_error{"tag: more than 65535 different tags"};
  }
  const auto number = static_cast<std::uint16_t>(tags_.size());
  tags_.emplace_back();
  try {
    tags_.back().name = tag_numbers_.try_emplace(std::string{name}, number).first->first;
  } catch (...) {
    tags_.pop_back();
    throw;
  }
  return {number};
}

std::string_view Meter::name(Tag tag) const { return tags_.at(tag.index).name; }

MemoryGauges Meter::peaks(ScopeId scope) const {
  const ScopedPeaks::Peaks peaks = scopes_.since(scope);
  MemoryGauges result = all_;
  result.requested.peak = peaks.requested;
  result.allocated.peak = peaks.allocated;
  result.active.peak = peaks.active;
  result.reserved.peak = peaks.reserved;
  result.cached.peak = peaks.cached;
  return result;
}

MemoryStatistics Meter::statistics(const OrderedDevice& device) const {
  MemoryStatistics result;
  result.bytes = all_;
  result.counts = counts_;
  result.live_blocks = live_;
  for (const auto& [stream, allocated] : streams_) {
    if (stream.valid()) result.streams.push_back({device.name(stream), stream, allocated, 0});
  }
  for (const auto& [stream, allocated] : former_) {
    result.streams.push_back({device.name(stream), stream, allocated, 0});
  }
  for (const TagShare& share : tags_) {
    if (share.allocated.peak > 0)
      result.tags.push_back({std::string{share.name}, {}, share.allocated, 0});
  }
  return result;
}

double MemoryStatistics::utilization() const noexcept {
  return bytes.reserved.peak == 0
             ? 1.0
             : static_cast<double>(bytes.active.peak) / static_cast<double>(bytes.reserved.peak);
}

double UsableBytes::fragmentation() const noexcept {
  return total == 0 ? 0.0 : 1.0 - static_cast<double>(largest) / static_cast<double>(total);
}

}  // namespace millrace
