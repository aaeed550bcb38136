#include "observe/replay/recorded_releases.hpp"

#include <algorithm>

#include "millrace/observe/replay.hpp"

namespace millrace {
namespace {

using trace::EventKind;
using trace::LogEvent;

bool gives_back(EventKind kind) {
  return kind == EventKind::segment_free || kind == EventKind::segment_unmap;
}

bool takes(EventKind kind) {
  return kind == EventKind::segment_alloc || kind == EventKind::segment_map;
}

/** Returns the next event of the same device; nullptr: none. */
const LogEvent* next_of(const trace::AllocationLog& log, const LogEvent& event) {
  const LogEvent* const end = log.events.data() + log.events.size();
  const LogEvent* const next =
      std::find_if(&event + 1, end, [&](const LogEvent& e) { return e.device == event.device; });
  return next == end ? nullptr : next;
}

std::size_t reserved_at_start(const trace::AllocationLog& log, std::uint32_t device) {
  std::size_t bytes = 0;
  if (device >= log.initial.size()) return bytes;
  for (const trace::TorchSegment& segment : log.initial[device].segments) bytes += segment.bytes;
  return bytes;
}

/** Returns the device's free bytes when PyTorch ran out of memory. */
std::size_t free_when_out(const trace::AllocationLog& log, const LogEvent& event) {
  const auto& events = log.snapshot->traces.at(event.device);
  return static_cast<std::size_t>(events.at(event.position).address);
}

}  // namespace

bool program_emptied_cache(const trace::AllocationLog& log, const LogEvent& event) {
  if (!gives_back(event.kind)) return false;
  const LogEvent* const next = next_of(log, event);
  return next == nullptr ||
         (!gives_back(next->kind) && !takes(next->kind) && next->kind != EventKind::out_of_memory);
}

namespace {

/** Millrace's traces have the size of the device, which matters if a request failed. */
RecordedDevice device_that_failed(const trace::AllocationLog& log, std::uint32_t device) {
  if (device >= log.device_memory.size() || log.device_memory[device] == 0) return {};
  const bool has_failed = std::ranges::any_of(log.events, [&](const LogEvent& event) {
    return event.device == device && event.kind == EventKind::out_of_memory;
  });
  if (!has_failed) return {};
  return {RecordedDevice::Source::whole, static_cast<std::size_t>(log.device_memory[device])};
}

}  // namespace

RecordedDevice recorded_device(const trace::AllocationLog& log, std::uint32_t device) {
  using Source = RecordedDevice::Source;
  if (!log.snapshot) return device_that_failed(log, device);
  std::size_t held = reserved_at_start(log, device), most = held, ran_out = 0;
  bool gave_back = false, full = false;
  for (const LogEvent& event : log.events) {
    if (event.device != device) continue;
    full = full || (gave_back && takes(event.kind));
    gave_back = gives_back(event.kind);
    if (takes(event.kind)) held += event.bytes;
    if (gave_back) held -= std::min<std::size_t>(held, event.bytes);
    most = std::max(most, held);
    if (event.kind == EventKind::out_of_memory) {
      ran_out = std::max(ran_out, held + free_when_out(log, event));
    }
  }
  if (ran_out > 0) return {Source::out_of_memory, std::max(ran_out, most)};
  if (full) return {Source::full, most};
  return {};
}

const char* to_string(ReplayStart start) noexcept {
  return start == ReplayStart::recorded ? "recorded" : "live blocks";
}

}  // namespace millrace
