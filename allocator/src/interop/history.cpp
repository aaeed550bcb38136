#include "interop/history.hpp"

#include <chrono>
#include <unordered_map>

#include "millrace/observe/trace_snapshot.hpp"

namespace millrace::interop {
namespace {

thread_local bool reports_here = false;

std::int64_t now_us() {
  using std::chrono::microseconds;
  return std::chrono::duration_cast<microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

CallStacks* made(std::optional<CallStacks>& stacks, std::size_t frames) {
  return frames == 0 ? nullptr : &stacks.emplace(frames);
}

}  // namespace

History::History(std::size_t allocations, std::size_t stack_frames)
    : trace_({.keep = allocations,
              .for_snapshots = true,
              .stacks = made(stacks_, stack_frames),
              .clock = now_us}) {}

History::Reporting::Reporting() noexcept { reports_here = true; }
History::Reporting::~Reporting() { reports_here = false; }
bool History::is_reporting() noexcept { return reports_here; }

// Function names are resolved after threads can allocate again. To resolve them reads files and
// takes the loader's lock, under which a library that is being loaded may allocate.
trace::TorchSnapshot History::snapshot(std::uint32_t device, SnapshotOptions options) {
  options.stack = [](const TracedBlock& block, trace::StackTable&) { return block.stack; };
  trace::TorchSnapshot snapshot;
  trace_.read([&] { snapshot = torch_snapshot(trace_, device, options); });
  if (!stacks_) return snapshot;
  std::unordered_map<CallStacks::Id, trace::StackTable::Id> known;
  const auto name = [&](trace::StackTable::Id& stack) {
    const auto [found, fresh] = known.try_emplace(stack, trace::StackTable::kNone);
    if (fresh) found->second = stacks_->add_to(snapshot.stacks, stack);
    stack = found->second;
  };
  for (auto& events : snapshot.traces)
    for (trace::TorchEvent& event : events) name(event.stack);
  for (trace::TorchSegment& segment : snapshot.segments)
    for (trace::TorchBlock& block : segment.blocks) name(block.stack);
  return snapshot;
}

void History::allocated(const AllocationEvent& event) {
  is_reporting() ? trace_.found(event) : trace_.allocated(event);
  notify_next([&](AllocationObserver& next) { next.allocated(event); });
}

void History::use_recorded(std::uint64_t id, StreamId stream) {
  trace_.use_recorded(id, stream);
  notify_next([&](AllocationObserver& next) { next.use_recorded(id, stream); });
}

void History::freed(const FreeEvent& event) {
  trace_.freed(event);
  notify_next([&](AllocationObserver& next) { next.freed(event); });
}

void History::segment_acquired(void* base, std::size_t bytes) {
  trace_.segment_acquired(base, bytes);
  notify_next([&](AllocationObserver& next) { next.segment_acquired(base, bytes); });
}

void History::segment_released(void* base, std::size_t bytes) {
  trace_.segment_released(base, bytes);
  notify_next([&](AllocationObserver& next) { next.segment_released(base, bytes); });
}

void History::pages_moved(void* to, void* from, std::size_t bytes) {
  trace_.pages_moved(to, from, bytes);
  notify_next([&](AllocationObserver& next) { next.pages_moved(to, from, bytes); });
}

}  // namespace millrace::interop
