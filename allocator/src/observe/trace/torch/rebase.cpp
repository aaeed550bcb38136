#include "observe/trace/torch/rebase.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/observe/trace/parse_error.hpp"

namespace millrace::trace {

namespace {

constexpr std::uint64_t kUsualSpace = std::uint64_t{1} << 48;
constexpr std::uint64_t kMostApart = std::uint64_t{1} << 47;  // a replay takes the other half
constexpr std::uint64_t kUnit = std::uint64_t{1} << 40;

bool has_address(const TorchEvent& event) {
  return event.action != TorchAction::out_of_memory && event.action != TorchAction::snapshot &&
         event.action != TorchAction::other;
}

/** Calls `function` with every address, by reference, and the bytes that lie there. */
template <typename Function>
void for_each_address(TorchSnapshot& snapshot, const Function& function) {
  for (TorchSegment& segment : snapshot.segments) {
    function(segment.address, segment.bytes);
    for (TorchBlock& block : segment.blocks) function(block.address, block.bytes);
  }
  for (auto& trace : snapshot.traces) {
    for (TorchEvent& event : trace) {
      if (has_address(event)) function(event.address, event.bytes);
    }
  }
}

}  // namespace

void rebase(TorchSnapshot& snapshot, const std::string& source, Warnings& warnings) {
  std::uint64_t first = UINT64_MAX, end = 0;
  for_each_address(snapshot, [&](std::uint64_t address, std::uint64_t bytes) {
    first = std::min(first, address);
    end = std::max(end, address + bytes);
  });
  if (end <= kUsualSpace) return;
  const std::uint64_t base = first / kUnit * kUnit - std::min(first / kUnit * kUnit, kUnit);
  if (end - base > kMostApart) {
    throw ParseError{source, "",
                     fmt::format("addresses from {:#x} to {:#x} lie further apart than the 47 bits "
                                 "that a replay takes",
                                 first, end)};
  }
  for_each_address(snapshot, [&](std::uint64_t& address, std::uint64_t) { address -= base; });
  snapshot.base = base;
  warnings.add("addresses beyond 48 bits are shown less a base", fmt::format("{:#x}", base));
}

}  // namespace millrace::trace
