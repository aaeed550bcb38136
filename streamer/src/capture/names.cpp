#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "millrace/streamer/capture.hpp"

namespace millrace {
namespace {

constexpr std::array<std::string_view, kCaptureWays.size()> kWays{"sync", "sync-pageable", "mapped",
                                                                  "ring", "ring-kernel"};
constexpr std::array<std::string_view, 2> kPolicies{"block", "mark-dirty"};

}  // namespace

std::string_view to_string(CaptureWay way) noexcept { return kWays[static_cast<std::size_t>(way)]; }

CaptureWay parse_capture_way(std::string_view name) {
  for (const CaptureWay way : kCaptureWays) {
    if (to_string(way) == name) return way;
  }
  throw std::invalid_argument{
      fmt::format("nothing is captured the way '{}'; there are {}", name, fmt::join(kWays, ", "))};
}

std::string_view to_string(WhenFull policy) noexcept {
  return kPolicies[static_cast<std::size_t>(policy)];
}

WhenFull parse_when_full(std::string_view name) {
  for (const WhenFull policy : {WhenFull::block, WhenFull::mark_dirty}) {
    if (to_string(policy) == name) return policy;
  }
  throw std::invalid_argument{fmt::format("no policy of full slots is called '{}'; there are {}",
                                          name, fmt::join(kPolicies, ", "))};
}

}  // namespace millrace
