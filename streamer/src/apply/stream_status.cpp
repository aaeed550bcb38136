#include "millrace/streamer/stream_status.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "apply/copy_position.hpp"
#include "sink/chain.hpp"

namespace millrace {
namespace {

/** Longest wait for the first batch that is not applied. */
constexpr std::chrono::seconds kPatience{2};

/** Clocks of two machines differ: a time in the future has age 0. */
std::optional<std::uint64_t> age(std::uint64_t then_ms, std::uint64_t now_ms) {
  if (then_ms == 0) return std::nullopt;
  return now_ms > then_ms ? now_ms - then_ms : 0;
}

void add_rank(StreamStatus& status, const StepCommit& commit, std::uint64_t now_ms, bool& timed) {
  status.ranks = std::max(status.ranks, commit.ranks);
  ++status.committed;
  status.missing += commit.missing;
  const auto of_rank = age(commit.wall_time_ms, now_ms);
  timed = timed && of_rank;
  if (of_rank) status.age_ms = std::max(status.age_ms.value_or(0), *of_rank);
}

}  // namespace

StreamStatus status_of(Sink& sink, std::uint64_t now_ms) {
  StreamStatus status{.sink = sink.state()};
  status.empty = !status.sink.schema;
  sink::check_has_schema(status.sink, sink.name());
  const std::uint64_t epoch = status.sink.newest_epoch();
  bool timed = true;
  for (const auto& [rank, commit] : status.sink.commits) {
    if (commit.version.epoch == epoch) add_rank(status, commit, now_ms, timed);
  }
  // One commit without a time (from an older Millrace) makes the age unknown.
  if (!timed) status.age_ms.reset();
  status.applied = !status.sink.position.empty();
  for (const auto& [rank, answers] : apply::parse_position(status.sink.position).gaps) {
    status.waits_for.push_back(rank);
  }
  return status;
}

CopyLag lag_of(const StreamStatus& copy, RecordSource& log, std::uint64_t now_ms) {
  CopyLag lag;
  try {
    log.seek(apply::parse_position(copy.sink.position).source);
    if (copy.sink.schema) log.take_schema(*copy.sink.schema);
    lag.left = log.left();
    if (lag.left.count == 0) return lag;
    if (const auto next = log.next(kPatience)) {
      lag.oldest_ms = age(next->batch.commit.wall_time_ms, now_ms);
    }
  } catch (const SinkError& error) {
    if (error.kind() != SinkError::Kind::lost) throw;
    lag.lost = error.what();
  }
  return lag;
}

}  // namespace millrace
