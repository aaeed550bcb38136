#pragma once

#include "millrace/memory/allocator.hpp"

namespace millrace {

/**
 * @brief Peaks of an allocator since this object was made. Scopes may nest and overlap.
 *
 *   PeakScope step{allocator};
 *   ...
 *   const std::size_t most = step.peaks().reserved.peak;
 */
class PeakScope {
 public:
  explicit PeakScope(Allocator& allocator)
      : allocator_(allocator), scope_(allocator.open_scope()) {}
  ~PeakScope() { allocator_.close_scope(scope_); }
  PeakScope(const PeakScope&) = delete;
  PeakScope& operator=(const PeakScope&) = delete;

  [[nodiscard]] MemoryGauges peaks() const { return allocator_.peaks(scope_); }

 private:
  Allocator& allocator_;
  ScopeId scope_;
};

}  // namespace millrace
