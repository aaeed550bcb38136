#include "memory/caching/lean_limit.hpp"

#include <algorithm>

namespace millrace {
namespace {

// An excess of this many pages is always allowed, without ranges half of the smallest segment. A
// small program has a few pages, or a segment, that are partly used.
constexpr std::size_t kFewPages = 8;

// Segments have no pages that can be moved, so a program without ranges has twice the excess.
constexpr double kExcessOfSegments = 2;

// In 100 steps, loops of the benchmark add up to 11 segments for large requests while too much is
// reserved. Churn of random sizes on four streams adds 38 and more in ten million steps.
constexpr std::size_t kManyGrowths = 20;

}  // namespace

double LeanLimit::excess(double peak) const {
  const Policy& policy = stock_.policy;
  const bool has_pages = policy.growable_ranges && stock_.source.page_bytes() != 0;
  const std::size_t few =
      has_pages ? kFewPages * stock_.source.page_bytes() : policy.large_segment_least / 2;
  return std::max(static_cast<double>(few), policy.lean_above * peak);
}

std::size_t LeanLimit::room(double times) const {
  const MemoryGauges& bytes = stock_.turns.current().bytes();
  const std::size_t page = stock_.source.page_bytes();
  const auto peak = static_cast<double>(bytes.requested.peak);
  constexpr double kMost = 0x1p62;  // the excess may be infinite
  const auto most = static_cast<std::size_t>(std::min(peak + times * excess(peak), kMost));
  return (most - std::min(most, bytes.reserved.current)) / page * page;
}

bool LeanLimit::exceeded(double times) const {
  const MemoryGauges& bytes = stock_.turns.current().bytes();
  const auto peak = static_cast<double>(bytes.requested.peak);
  return static_cast<double>(bytes.reserved.current) > peak + times * excess(peak);
}

void LeanLimit::count_growth() {
  if (stock_.saves_segments && exceeded(kExcessOfSegments)) ++stock_.growths_in_excess;
}

bool LeanLimit::creeps() const {
  return stock_.growths_in_excess >= kManyGrowths && exceeded(kExcessOfSegments);
}

bool LeanLimit::near_peak(std::size_t bytes) const {
  const Gauge& requested = stock_.turns.current().bytes().requested;
  const auto peak = static_cast<double>(requested.peak);
  return static_cast<double>(requested.current + bytes) > peak - 2 * excess(peak);
}

}  // namespace millrace
