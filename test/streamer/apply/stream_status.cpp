#include "millrace/streamer/stream_status.hpp"

#include "apply/copy_position.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "test/streamer/apply/log_rig.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::uint64_t kNow = 1'764'000'000'000;

/// A commit of one of two ranks.
StepCommit commit_of(std::uint32_t rank, std::uint64_t step, std::uint64_t wall_time_ms,
                     std::uint64_t missing = 0) {
  return {.version = {7, step},
          .step = step,
          .rank = rank,
          .ranks = 2,
          .missing = missing,
          .wall_time_ms = wall_time_ms};
}

struct Copy {
  Copy() { sink.begin(kSchema); }
  void write(const StepCommit& commit, std::string_view position = {}) {
    StepBatch batch;
    batch.commit = commit;
    sink.write(batch, position);
  }
  MemorySink sink;
};

}  // namespace

TEST_CASE("a sink without a stream is empty and not complete", "[status]") {
  MemorySink sink;
  const StreamStatus status = status_of(sink, kNow);
  CHECK(status.empty);
  CHECK_FALSE(status.complete());
}

TEST_CASE("a sink is complete when all ranks have a commit without missing rows", "[status]") {
  Copy copy;
  copy.write(commit_of(0, 5, kNow - 300));
  StreamStatus status = status_of(copy.sink, kNow);
  CHECK(status.ranks == 2);
  CHECK(status.committed == 1);
  CHECK_FALSE(status.complete());
  copy.write(commit_of(1, 4, kNow - 900));
  status = status_of(copy.sink, kNow);
  CHECK(status.complete());
  CHECK(status.sink.committed_by_all() == Version{7, 4});
  CHECK(status.age_ms == 900);  // of the rank that is the furthest behind
  copy.write(commit_of(1, 6, kNow - 100, 12));
  status = status_of(copy.sink, kNow);
  CHECK(status.missing == 12);
  CHECK(status.age_ms == 300);
  CHECK_FALSE(status.complete());
}

TEST_CASE("a commit without a time has no age, a commit from a later clock has age 0", "[status]") {
  Copy copy;
  copy.write(commit_of(0, 5, kNow + 5000));
  CHECK(status_of(copy.sink, kNow).age_ms == 0);
  copy.write(commit_of(1, 5, 0));
  CHECK_FALSE(status_of(copy.sink, kNow).age_ms);
}

TEST_CASE("commits of ranks that no longer exist do not count", "[status]") {
  Copy copy;
  StepCommit old = commit_of(1, 9, kNow - 90'000, 5);
  old.version.epoch = 6;
  copy.write(old);
  StepCommit now = commit_of(0, 9, kNow - 1);
  now.ranks = 1;
  copy.write(now);
  const StreamStatus status = status_of(copy.sink, kNow);
  CHECK(status.complete());
  CHECK(status.age_ms == 1);
}

TEST_CASE("a sink with commits and without a schema is not reported as empty", "[status]") {
  MemorySink sink;
  StepBatch batch;
  batch.commit = commit_of(0, 1, kNow);
  sink.write(batch);
  CHECK_THROWS_WITH(status_of(sink, kNow),
                    Catch::Matchers::ContainsSubstring("the schema of their tables was deleted"));
}

TEST_CASE("the lag of a copy is counted from the copy's position in the log", "[status]") {
  Writer writer;
  for (std::int64_t row = 0; row < 4; ++row) {
    writer.write(0, {row});
    writer.log.batches.back().commit.wall_time_ms = kNow - 1000 + static_cast<std::uint64_t>(row);
  }
  Copy copy;
  copy.write({.version = {1, 2}, .step = 2, .wall_time_ms = kNow - 999}, "|2");
  LogSource log{writer.log};
  StreamStatus status = status_of(copy.sink, kNow);
  CHECK(status.applied);
  CopyLag lag = lag_of(status, log, kNow);
  CHECK(lag.left.count == 2);
  CHECK(lag.oldest_ms == 998);
  CHECK(lag.lost.empty());
  writer.log.removed = 3;
  CHECK(lag_of(status, log, kNow).lost == "it was removed");
  CHECK(writer.log.snapshots_asked == 0);

  copy.write({.version = {1, 4}, .after = {1, 2}, .step = 4}, "0:0 |4");
  status = status_of(copy.sink, kNow);
  CHECK(status.waits_for == std::vector<std::uint32_t>{0});
  CHECK_FALSE(status.complete());
  lag = lag_of(status, log, kNow);
  CHECK(lag.left.count == 0);
  CHECK_FALSE(lag.oldest_ms);
}
