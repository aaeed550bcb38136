#include "sink/kafka/topic/commits.hpp"

#include <algorithm>
#include <cstddef>

namespace millrace::sink {
namespace {

constexpr std::size_t kKindAt = 20;

/** Returns the newest commit of a rank that all partitions have, if one exists. */
std::optional<StepCommit> common(const std::map<std::uint32_t, StepCommit>& parts) {
  const auto version = [](const auto& of_part) { return of_part.second.version; };
  const std::uint32_t count = std::ranges::max_element(parts, {}, version)->second.parts;
  const auto end = parts.lower_bound(count);
  if (std::distance(parts.begin(), end) != count) return std::nullopt;
  StepCommit least = std::min_element(parts.begin(), end, [&](const auto& a, const auto& b) {
                       return version(a) < version(b);
                     })->second;
  least.rows = 0;
  for (auto at = parts.begin(); at != end; ++at) {
    if (at->second.version == least.version) least.rows += at->second.rows;
  }
  least.part = 0;
  least.parts = 1;
  return least;
}

}  // namespace

void TopicCommits::add(const TopicMessage& message) {
  if (message.record.size() >= kRecordHeader &&
      message.record[kKindAt] == static_cast<std::byte>(RecordKind::row)) {
    return;
  }
  const auto record = reader_.read(message);
  if (!record) return;
  if (record->kind == RecordKind::schema) schema_ = record->schema;
  if (record->kind == RecordKind::commit) add(record->commit, message.position);
}

void TopicCommits::add(const StepCommit& of_part, std::string_view position) {
  const auto [at, first] = newest_[of_part.rank].emplace(of_part.part, of_part);
  if (!first) {
    if (of_part.version < at->second.version) return;
    at->second = of_part;
  }
  if (of_part.part == 0 && !position.empty()) position_ = position;
}

SinkState TopicCommits::state() const {
  SinkState state{.schema = schema_, .position = position_};
  for (const auto& [rank, parts] : newest_) {
    if (const auto commit = common(parts)) state.commits[rank] = *commit;
  }
  return state;
}

std::uint64_t TopicCommits::newest_epoch(std::uint32_t rank) const {
  std::uint64_t newest = 0;
  const auto found = newest_.find(rank);
  if (found == newest_.end()) return newest;
  for (const auto& [part, commit] : found->second) newest = std::max(newest, commit.version.epoch);
  return newest;
}

std::uint64_t TopicCommits::newest_epoch() const {
  std::uint64_t newest = 0;
  for (const auto& [rank, parts] : newest_) newest = std::max(newest, newest_epoch(rank));
  return newest;
}

StepCommit of_part(const StepCommit& commit, std::int32_t part, std::int32_t parts,
                   std::uint64_t rows) {
  StepCommit one = commit;
  one.part = static_cast<std::uint32_t>(part);
  one.parts = static_cast<std::uint32_t>(parts);
  one.rows = rows;
  return one;
}

}  // namespace millrace::sink
