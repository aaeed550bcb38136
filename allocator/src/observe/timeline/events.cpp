#include "observe/timeline/events.hpp"

#include <algorithm>

namespace millrace::timeline {

std::uint32_t Names::add(std::string_view name) {
  auto known = indices_.find(name);
  if (known == indices_.end()) {
    known = indices_.emplace(name, static_cast<std::uint32_t>(names_.size())).first;
    names_.push_back(&known->first);
  }
  return known->second;
}

bool Events::room() {
  if (kept_ >= most_) {
    ++left_out_;
    return false;
  }
  ++kept_;
  return true;
}

std::uint32_t Events::stream_of(const ExecutedOperation& operation) {
  const auto [known, is_new] =
      stream_tracks_.try_emplace({operation.device, operation.stream_id}, streams.size());
  if (is_new) {
    streams.push_back({operation.device, operation.stream_id, names.add(operation.stream_name)});
  }
  return known->second;
}

// Operations arrive in the order of their ends. A track is free if its last operation ended before
// this one begins. Of the free tracks, the one that was busy last is used.
std::uint32_t Events::engine_of(const ExecutedOperation& operation) {
  if (operation.engine == Engine::stream) return kNoEngine;
  auto& lanes = engine_tracks_[{operation.device, operation.engine}];
  std::uint32_t best = kNoEngine;
  for (const std::uint32_t lane : lanes) {
    const Nanoseconds free_from = engines[lane].last_end;
    if (free_from > operation.begin) continue;
    if (best == kNoEngine || free_from > engines[best].last_end) best = lane;
  }
  if (best == kNoEngine) {
    best = static_cast<std::uint32_t>(engines.size());
    engines.push_back({operation.device, operation.engine, lanes.size()});
    lanes.push_back(best);
  }
  engines[best].last_end = operation.end;
  return best;
}

void Events::add(const ExecutedOperation& operation) {
  latest_ = std::max(latest_, operation.end);
  if (!room()) return;
  OperationEvent event;
  event.index = operation.index;
  event.name = names.add(operation.name);
  event.stream = stream_of(operation);
  event.engine = engine_of(operation);
  event.enqueued = operation.enqueued;
  event.begin = operation.begin;
  event.end = operation.end;
  event.alone = operation.alone;
  event.cost = operation.cost;
  for (const View& view : operation.views) event.bytes += view.bytes;
  StreamTrack& stream = streams[event.stream];
  event.stands_since = std::min(event.begin, std::max(stream.last_end, event.enqueued));
  stream.last_end = event.end;

  const auto position = static_cast<std::uint32_t>(operations.size());
  for (const std::uint64_t earlier : operation.after) {
    const auto from = positions_.find(earlier);
    if (from != positions_.end() && room()) arrows.push_back({from->second, position});
  }
  positions_[event.index] = position;
  operations.push_back(event);
}

void Events::add(const HostEvent& call) {
  latest_ = std::max(latest_, call.end);
  if (call.end > call.begin && room()) calls.push_back(call);
}

void Events::add(const Sample& sample) {
  Sample& last = last_[sample.memory];
  const bool first = last.when < Nanoseconds{0};
  if (!first && last.reserved == sample.reserved && last.active == sample.active &&
      last.stranded == sample.stranded) {
    return;
  }
  last = sample;
  if (room()) samples.push_back(sample);
}

std::uint32_t Events::add_thread(std::string_view name) {
  threads.emplace_back(name);
  return static_cast<std::uint32_t>(threads.size() - 1);
}

std::uint32_t Events::add_memory(MemoryTrack memory) {
  memories.push_back(std::move(memory));
  last_.push_back({.when = Nanoseconds{-1}});
  return static_cast<std::uint32_t>(memories.size() - 1);
}

}  // namespace millrace::timeline
