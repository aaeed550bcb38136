#include "memory/caching/lean_limit.hpp"

#include <algorithm>

namespace millrace {
namespace {

// An excess of this many pages is always allowed. A small program has a few pages that are partly
// used.
constexpr std::size_t kFewPages = 8;

}  // namespace

double LeanLimit::excess(double peak) const {
  const auto few = static_cast<double>(kFewPages * stock_.source.page_bytes());
  return std::max(few, stock_.policy.lean_above * peak);
}

std::size_t LeanLimit::room(double times) const {
  const MemoryGauges& bytes = stock_.turns.current().bytes();
  const std::size_t page = stock_.source.page_bytes();
  const auto peak = static_cast<double>(bytes.requested.peak);
  constexpr double kMost = 0x1p62;  // the excess may be infinite
  const auto most = static_cast<std::size_t>(std::min(peak + times * excess(peak), kMost));
  return (most - std::min(most, bytes.reserved.current)) / page * page;
}

bool LeanLimit::near_peak(std::size_t bytes) const {
  const Gauge& requested = stock_.turns.current().bytes().requested;
  const auto peak = static_cast<double>(requested.peak);
  return static_cast<double>(requested.current + bytes) > peak - 2 * excess(peak);
}

}  // namespace millrace
