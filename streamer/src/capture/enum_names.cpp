#include "millrace/streamer/row_capture.hpp"
#include "millrace/text/parse_enum.hpp"

namespace millrace {
namespace {

constexpr std::array<std::string_view, kCaptureModes.size()> kModes{
    "sync", "sync-pageable", "mapped", "ring", "ring-kernel"};
constexpr std::array<std::string_view, kWhenFull.size()> kPolicies{"block", "mark-dirty"};
constexpr std::array<std::string_view, kGatherOn.size()> kGatherStreams{"update", "own"};

}  // namespace

std::string_view to_string(CaptureMode mode) noexcept {
  return kModes[static_cast<std::size_t>(mode)];
}

CaptureMode parse_capture_mode(std::string_view name) {
  return text::parse_enum("capture mode", name, kCaptureModes);
}

std::string_view to_string(WhenFull policy) noexcept {
  return kPolicies[static_cast<std::size_t>(policy)];
}

std::string_view to_string(GatherOn stream) noexcept {
  return kGatherStreams[static_cast<std::size_t>(stream)];
}

}  // namespace millrace
