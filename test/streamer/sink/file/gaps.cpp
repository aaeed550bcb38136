// Segments that are removed from the middle of a folder. Rows in other segments may then be stale.
#include <filesystem>

#include "test/streamer/sink/file/file_bench.hpp"

namespace millrace::test {
namespace {

/// Writes steps `from` to `to`. Step `snapshot` begins a chain.
void write_steps(Sink& sink, std::uint64_t from, std::uint64_t to, std::uint64_t snapshot = 0) {
  for (std::uint64_t step = from; step <= to; ++step) {
    StepBatch batch = file_step(step);
    if (step == snapshot) batch.commit.after = {};
    sink.write(batch);
  }
}

std::unique_ptr<Sink> open_small(const FileBench& bench) {
  auto sink = open_sink("file:" + bench.folder.string() + "?segment_bytes=1");
  sink->begin(file_schema());
  return sink;
}

void remove_segment(const FileBench& bench, std::uint64_t number) {
  for (const auto& path : bench.segments()) {
    const auto name = sink::parse_segment_name(path.filename().string());
    if (name && name->number == number) std::filesystem::remove(path);
  }
}

}  // namespace

TEST_CASE("a folder without one of its middle segments fails the audit as lost", "[file]") {
  FileBench bench;
  write_steps(*open_small(bench), 1, 6);
  const auto number = GENERATE(2U, 4U, 5U);
  remove_segment(bench, number);
  auto sink = open_small(bench);
  CHECK(kind_of_failure([&] { sink->audit(0, 2); }) == SinkError::Kind::lost);
}

TEST_CASE("a folder that lacks only its oldest segments passes the audit", "[file]") {
  FileBench bench;
  write_steps(*open_small(bench), 1, 6);
  for (const std::uint64_t number : {0U, 1U, 2U}) {
    remove_segment(bench, number);
    auto sink = open_small(bench);
    CHECK_NOTHROW(sink->audit(0, 2));
  }
}

TEST_CASE("a gap before the newest snapshot is not reported as lost", "[file]") {
  FileBench bench;
  write_steps(*open_small(bench), 1, 6, 4);
  const auto number = GENERATE(2U, 3U, 5U);
  remove_segment(bench, number);
  auto sink = open_small(bench);
  if (number == 5) {
    CHECK(kind_of_failure([&] { sink->audit(0, 2); }) == SinkError::Kind::lost);
  } else {
    CHECK_NOTHROW(sink->audit(0, 2));
  }
}

TEST_CASE("a segment that is removed during a run is reported as lost once", "[file]") {
  FileBench bench;
  auto sink = open_small(bench);
  write_steps(*sink, 1, 4);
  sink->audit(0, 1);
  write_steps(*sink, 5, 6);
  remove_segment(bench, 5);
  CHECK(kind_of_failure([&] { sink->audit(0, 1); }) == SinkError::Kind::lost);
  CHECK_NOTHROW(sink->audit(0, 1));
  StepBatch snapshot = file_step(7);
  snapshot.commit.after = {};
  sink->write(snapshot);
  write_steps(*sink, 8, 9);
  remove_segment(bench, 3);  // older than the snapshot of step 7
  CHECK_NOTHROW(sink->audit(0, 1));
  remove_segment(bench, 8);
  CHECK(kind_of_failure([&] { sink->audit(0, 1); }) == SinkError::Kind::lost);
}

TEST_CASE("a gap is found although the first look failed", "[file]") {
  FileBench bench;
  write_steps(*open_small(bench), 1, 6);
  remove_segment(bench, 3);
  auto sink = open_small(bench);
  sink->finish_by(std::chrono::steady_clock::now());  // no segment is read
  CHECK(kind_of_failure([&] { sink->audit(0, 2); }) == SinkError::Kind::retry);
  sink->finish_by(std::chrono::steady_clock::time_point::max());
  CHECK(kind_of_failure([&] { sink->audit(0, 2); }) == SinkError::Kind::lost);
}

}  // namespace millrace::test
