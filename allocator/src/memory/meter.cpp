#include "memory/meter.hpp"

#include <limits>
#include <stdexcept>

namespace millrace {
namespace {

// Beyond so many, streams that hold nothing are forgotten: one-shot streams cost nothing.
constexpr std::size_t kStreamsKept = 64;

}  // namespace

template <typename Change>
void Meter::change(Change change) {
  const auto apply = [&](MemoryGauges& gauges) {
    change(gauges);
    const std::size_t cached = gauges.reserved.current > gauges.active.current
                                   ? gauges.reserved.current - gauges.active.current
                                   : 0;  // a driver pool counts later than we do
    gauges.cached.current = cached;
    if (cached > gauges.cached.peak) gauges.cached.peak = cached;
  };
  apply(all_);
  for (auto& [id, gauges] : scopes_) apply(gauges);
}

void Meter::allocated(std::size_t requested, std::size_t bytes, StreamId owner, Tag tag) {
  change([&](MemoryGauges& g) {
    g.requested.add(requested);
    g.allocated.add(bytes);
    g.active.add(bytes);
  });
  streams_[owner].add(bytes);
  tags_[tag.index].allocated.add(bytes);
  ++counts_.allocations;
  ++live_;
}

void Meter::freed(std::size_t requested, std::size_t bytes, StreamId owner, Tag tag) {
  change([&](MemoryGauges& g) {
    g.requested.subtract(requested);
    g.allocated.subtract(bytes);
    g.active.subtract(bytes);
  });
  const auto share = streams_.find(owner);
  share->second.subtract(bytes);
  if (share->second.current == 0 && streams_.size() > kStreamsKept) streams_.erase(share);
  tags_[tag.index].allocated.subtract(bytes);
  ++counts_.frees;
  --live_;
}

void Meter::moved(std::size_t bytes, StreamId from, StreamId to) {
  streams_[from].subtract(bytes);
  streams_[to].add(bytes);
}

void Meter::drained(std::size_t bytes) {
  change([&](MemoryGauges& g) { g.active.subtract(bytes); });
}

void Meter::draining(std::size_t bytes) {
  change([&](MemoryGauges& g) { g.active.add(bytes); });
}

void Meter::reserved(std::size_t bytes) {
  change([&](MemoryGauges& g) { g.reserved.add(bytes); });
  ++counts_.segments_acquired;
}

void Meter::released(std::size_t bytes) {
  change([&](MemoryGauges& g) { g.reserved.subtract(bytes); });
  ++counts_.segments_released;
}

Tag Meter::tag(std::string_view name) {
  for (std::size_t i = 0; i < tags_.size(); ++i) {
    if (tags_[i].name == name) return {static_cast<std::uint16_t>(i)};
  }
  if (tags_.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw std::length_error{"tag: more than 65535 different tags"};
  }
  tags_.push_back({std::string{name}, {}});
  return {static_cast<std::uint16_t>(tags_.size() - 1)};
}

std::string_view Meter::name(Tag tag) const { return tags_.at(tag.index).name; }

ScopeId Meter::open_scope() {
  MemoryGauges now = all_;
  for (Gauge* g : {&now.requested, &now.allocated, &now.active, &now.reserved, &now.cached}) {
    g->reset_peak();
  }
  scopes_.emplace(next_scope_, now);
  return {next_scope_++};
}

MemoryGauges Meter::peaks(ScopeId scope) const {
  const auto it = scopes_.find(scope.value);
  if (it == scopes_.end()) throw std::invalid_argument{"peaks: this scope is not open"};
  return it->second;
}

void Meter::close_scope(ScopeId scope) { scopes_.erase(scope.value); }

MemoryStatistics Meter::statistics(const OrderedDevice& device) const {
  MemoryStatistics result;
  result.bytes = all_;
  result.counts = counts_;
  result.live_blocks = live_;
  for (const auto& [stream, gauge] : streams_) {
    result.streams.push_back({device.name(stream), stream, gauge, 0});
  }
  for (const TagShare& share : tags_) {
    if (share.allocated.peak > 0) result.tags.push_back({share.name, {}, share.allocated, 0});
  }
  return result;
}

double MemoryStatistics::utilisation() const noexcept {
  return bytes.reserved.peak == 0
             ? 1.0
             : static_cast<double>(bytes.active.peak) / static_cast<double>(bytes.reserved.peak);
}

double UsableBytes::fragmentation() const noexcept {
  return total == 0 ? 0.0 : 1.0 - static_cast<double>(largest) / static_cast<double>(total);
}

}  // namespace millrace
