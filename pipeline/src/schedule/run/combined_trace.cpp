#include "schedule/run/combined_trace.hpp"

namespace millrace {

// Each of the two allocators numbers its allocations from 1, so the trace numbers them again.
void CombinedTrace::Part::allocated(const AllocationEvent& event) {
  AllocationEvent renumbered = event;
  renumbered.id = ++whole_.allocations_;
  ids_[event.id] = renumbered.id;
  whole_.trace_.allocated(renumbered);
}

void CombinedTrace::Part::use_recorded(std::uint64_t id, StreamId stream) {
  const auto known = ids_.find(id);
  if (known != ids_.end()) whole_.trace_.use_recorded(known->second, stream);
}

void CombinedTrace::Part::freed(const FreeEvent& event) {
  const auto known = ids_.find(event.id);
  if (known == ids_.end()) return;
  FreeEvent renumbered = event;
  renumbered.id = known->second;
  ids_.erase(known);
  whole_.trace_.freed(renumbered);
}

void CombinedTrace::Part::segment_acquired(void* base, std::size_t bytes) {
  whole_.trace_.segment_acquired(base, bytes);
}

void CombinedTrace::Part::segment_released(void* base, std::size_t bytes) {
  whole_.trace_.segment_released(base, bytes);
}

void CombinedTrace::Part::pages_moved(void* to, void* from, std::size_t bytes) {
  whole_.trace_.pages_moved(to, from, bytes);
}

}  // namespace millrace
