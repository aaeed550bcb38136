#include "observe/trace/memory_budget.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millrace::trace {

namespace {

std::uint64_t allowed(std::uint64_t spare, std::uint64_t factor, std::uint64_t bytes) {
  const bool fits = factor == 0 || bytes <= (UINT64_MAX - spare) / factor;
  return fits ? spare + factor * bytes : UINT64_MAX;
}

}  // namespace

MemoryBudget::MemoryBudget(std::uint64_t inflated, const TraceLimits& limits)
    : most_{std::min(limits.max_memory,
                     allowed(limits.spare_memory, limits.memory_per_byte, inflated))} {}

TraceLimits MemoryBudget::for_gzip(const TraceLimits& limits, std::uint64_t compressed) {
  TraceLimits result = limits;
  result.max_memory = std::min(
      limits.max_memory, allowed(limits.spare_memory, limits.memory_per_gzip_byte, compressed));
  return result;
}

std::string MemoryBudget::problem() {
  return "what the file holds needs more memory than a file of its length may take (docs/traces.md "
         "has the limits); gunzip it first if it is gzip and honest";
}

}  // namespace millrace::trace
