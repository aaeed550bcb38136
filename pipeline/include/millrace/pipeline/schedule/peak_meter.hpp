#pragma once

#include <optional>

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Peaks of the whole run and of a window, of one allocator or of two together.
 *
 * One allocator keeps its own peaks. The sum of two is taken whenever `sample` is called, which
 * must be after allocations and before frees.
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
