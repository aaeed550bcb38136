#pragma once

#include <optional>

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Measures peaks of a whole run and of a window, for one allocator or for the sum of two.
 *
 * A single allocator keeps its own peaks. For two allocators the sum is measured by `sample`: call
 * it after allocations and before frees.
 */
class PeakMeter {
 public:
  PeakMeter(Allocator& memory, Allocator& batches);
  ~PeakMeter();
  PeakMeter(const PeakMeter&) = delete;
  PeakMeter& operator=(const PeakMeter&) = delete;

  void sample();
  void open_window();
  [[nodiscard]] MemoryGauges whole();
  [[nodiscard]] MemoryGauges window();

 private:
  Allocator& memory_;
  Allocator& batches_;
  const bool two_;
  ScopeId whole_scope_;
  std::optional<ScopeId> window_scope_;
  MemoryGauges whole_, window_;
};

}  // namespace millrace
