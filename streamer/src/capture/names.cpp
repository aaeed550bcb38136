
#include "millrace/streamer/capture.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

constexpr std::array<std::string_view, kCaptureWays.size()> kWays{"sync", "sync-pageable", "mapped",
                                                                  "ring", "ring-kernel"};
constexpr std::array kWhenFull{WhenFull::block, WhenFull::mark_dirty};
constexpr std::array<std::string_view, kWhenFull.size()> kPolicies{"block", "mark-dirty"};

}  // namespace

std::string_view to_string(CaptureWay way) noexcept { return kWays[static_cast<std::size_t>(way)]; }

CaptureWay parse_capture_way(std::string_view name) {
  return text::parse_enum("way of capture", name, kCaptureWays);
}

std::string_view to_string(WhenFull policy) noexcept {
  return kPolicies[static_cast<std::size_t>(policy)];
}

WhenFull parse_when_full(std::string_view name) {
  return text::parse_enum("policy for full slots", name, kWhenFull);
}

}  // namespace millrace
