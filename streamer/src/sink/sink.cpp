#include "millrace/streamer/sink.hpp"

#include <algorithm>

namespace millrace {

std::uint64_t SinkState::newest_epoch() const noexcept {
  std::uint64_t newest = 0;
  for (const auto& [rank, commit] : commits) newest = std::max(newest, commit.version.epoch);
  return newest;
}

std::optional<Version> SinkState::committed_by_all() const noexcept {
  const std::uint64_t epoch = newest_epoch();
  std::optional<Version> least;
  std::uint32_t there = 0, ranks = 0;
  for (const auto& [rank, commit] : commits) {
    // Commits of earlier trainers say nothing about this trainer's steps.
    if (commit.version.epoch != epoch) continue;
    ++there;
    ranks = commit.ranks;
    const Version step{epoch, commit.step};
    least = std::min(least.value_or(step), step);
  }
  return there == ranks ? least : std::nullopt;
}

std::uint64_t SinkState::missing() const noexcept {
  const std::uint64_t epoch = newest_epoch();
  std::uint64_t missing = 0;
  for (const auto& [rank, commit] : commits) {
    if (commit.version.epoch == epoch) missing += commit.missing;
  }
  return missing;
}

}  // namespace millrace
