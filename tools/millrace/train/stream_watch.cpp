#include "train/stream_watch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kDown = 1s;    ///< shorter failures are not reported
constexpr Nanoseconds kBehind = 5s;  ///< shorter delays are not reported

}  // namespace

std::vector<std::string> StreamWatch::news(const std::vector<ShippingHealth>& health) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    const ShippingHealth& now = health[i];
    State& state = states_[i];
    if (!now.given_up.empty()) {
      if (!std::exchange(state.given_up, true)) {
        lines.push_back(fmt::format("streaming to {} has stopped: {}", sinks_[i], now.given_up));
      }
      continue;
    }
    const bool down = now.failing_for >= kDown;
    if (down && !state.down && says_down_) {
      lines.push_back(fmt::format("{} is down: {}; training goes on, and rows wait for it",
                                  sinks_[i], now.error));
    }
    if (!now.failing && state.down && says_down_) {
      lines.push_back(
          fmt::format("{} works again, after {:.1f} s", sinks_[i], in_seconds(state.longest)));
    }
    state.down = down || (state.down && now.failing);
    state.longest = now.failing ? now.failing_for : Nanoseconds{0};
  }
  return lines;
}

std::string StreamWatch::status(const std::vector<ShippingHealth>& health) const {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sinks_.size(); ++i) {
    const ShippingHealth& now = health[i];
    if (!now.given_up.empty()) {
      parts.push_back(fmt::format("{} given up", sinks_[i]));
    } else if (now.failing_for >= kDown) {
      parts.push_back(fmt::format("{} down for {:.0f} s", sinks_[i], in_seconds(now.failing_for)));
    } else if (now.oldest >= kBehind) {
      parts.push_back(fmt::format("{} {:.0f} s behind", sinks_[i], in_seconds(now.oldest)));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace millrace::cli
