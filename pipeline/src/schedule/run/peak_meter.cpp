#include "millrace/pipeline/schedule/peak_meter.hpp"

#include <algorithm>

namespace millrace {
namespace {

constexpr Gauge MemoryGauges::*kGauges[] = {&MemoryGauges::requested, &MemoryGauges::allocated,
                                            &MemoryGauges::active, &MemoryGauges::reserved,
                                            &MemoryGauges::cached};

void set(Gauge& gauge, std::size_t value) {
  gauge.current = value;
  gauge.peak = std::max(gauge.peak, value);
}

}  // namespace

PeakMeter::PeakMeter(Allocator& memory, Allocator& batches)
    : memory_(memory),
      batches_(batches),
      two_(&memory != &batches),
      whole_scope_(memory.open_scope()) {}

PeakMeter::~PeakMeter() {
  memory_.close_scope(whole_scope_);
  if (window_scope_) memory_.close_scope(*window_scope_);
}

void PeakMeter::sample() {
  // One allocator knows its exact peaks. With two allocators, only values of the same moment can be
  // added.
  if (!two_) return;
  const MemoryGauges memory = memory_.statistics().bytes;
  const MemoryGauges batches = batches_.statistics().bytes;
  for (const auto gauge : kGauges) {
    const std::size_t sum = (memory.*gauge).current + (batches.*gauge).current;
    set(whole_.*gauge, sum);
    if (window_scope_) set(window_.*gauge, sum);
  }
}

void PeakMeter::open_window() {
  if (window_scope_) memory_.close_scope(*window_scope_);
  window_scope_ = memory_.open_scope();
  window_ = {};
  sample();
}

MemoryGauges PeakMeter::whole() { return two_ ? whole_ : memory_.peaks(whole_scope_); }

MemoryGauges PeakMeter::window() {
  if (two_ || !window_scope_) return window_;
  return memory_.peaks(*window_scope_);
}

}  // namespace millrace
