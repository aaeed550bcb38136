#include "millrace/streamer/sink.hpp"

#include <algorithm>

namespace millrace {

std::uint64_t SinkState::newest_epoch() const noexcept {
  std::uint64_t newest = 0;
  for (const auto& [rank, mark] : marks) newest = std::max(newest, mark.version.epoch);
  return newest;
}

std::optional<Version> SinkState::counts() const noexcept {
  const std::uint64_t epoch = newest_epoch();
  std::optional<Version> least;
  std::uint32_t there = 0, ranks = 0;
  for (const auto& [rank, mark] : marks) {
    if (mark.version.epoch != epoch) continue;
    ++there;
    ranks = mark.ranks;
    const Version step{epoch, mark.step};
    least = std::min(least.value_or(step), step);
  }
  return there == ranks ? least : std::nullopt;
}

std::uint64_t SinkState::missing() const noexcept {
  const std::uint64_t epoch = newest_epoch();
  std::uint64_t missing = 0;
  for (const auto& [rank, mark] : marks) {
    if (mark.version.epoch == epoch) missing += mark.missing;
  }
  return missing;
}

}  // namespace millrace
