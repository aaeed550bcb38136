// Segments that end at any byte, or are damaged.
#include "test/streamer/sink/file/file_bench.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// A segment of three steps, and its contents after two and after three steps.
struct ThreeSteps {
  FileBench bench;
  std::string two, three;
  std::filesystem::path segment;

  ThreeSteps() {
    auto sink = bench.written(2);
    segment = bench.segments().at(0);
    two = contents(segment);
    sink->write(file_step(3));
    three = contents(segment);
  }
};

}  // namespace

TEST_CASE("a segment that is torn in its last batch has all earlier batches", "[file]") {
  ThreeSteps steps;
  for (std::size_t length = steps.two.size(); length < steps.three.size(); ++length) {
    CAPTURE(length);
    replace(steps.segment, steps.three.substr(0, length));
    auto sink = std::make_unique<sink::FileSink>(sink::FileOptions{.folder = steps.bench.folder});
    CHECK(sink->state().commits.at(0).version == Version{1, 2});
    CHECK(versions_in(*sink) == versions_after(2));
    CHECK(steps.bench.steps_read() == steps_up_to(2));
  }
}

TEST_CASE("a writer cuts off a torn end and keeps all complete batches", "[file]") {
  ThreeSteps steps;
  for (std::size_t length = steps.two.size(); length <= steps.three.size(); length += 8) {
    CAPTURE(length);
    for (const auto& path : steps.bench.segments()) std::filesystem::remove(path);
    replace(steps.segment, steps.three.substr(0, length));
    auto sink = steps.bench.open();
    if (length < steps.three.size()) {
      CHECK(kind_of_failure([&] { sink->write(file_step(4)); }) == SinkError::Kind::lost);
    }
    sink->write(file_step(3));
    sink->write(file_step(4));
    CHECK(versions_in(*sink) == versions_after(4));
    CHECK(steps.bench.steps_read() == steps_up_to(4));
  }
}

TEST_CASE("an end of any bytes without a complete commit counts as torn", "[file]") {
  ThreeSteps steps;
  std::string damaged = steps.three;
  damaged[damaged.size() - 1] ^= 1;  // in the last commit's checksum
  for (const std::string& end :
       {steps.two + std::string(5000, '\0'), steps.two + std::string(5000, '\x7F'), damaged}) {
    replace(steps.segment, end);
    CHECK(steps.bench.steps_read() == steps_up_to(2));
    auto sink = steps.bench.open();
    CHECK(versions_in(*sink) == versions_after(2));
    sink->write(file_step(3));
    CHECK(steps.bench.steps_read() == steps_up_to(3));
    sink.reset();
    std::filesystem::remove(steps.bench.segments().back());
  }
}

TEST_CASE("a segment without a complete batch is ignored", "[file]") {
  ThreeSteps steps;
  for (std::size_t length = 0; length < 200; length += 7) {
    CAPTURE(length);
    for (const auto& path : steps.bench.segments()) {
      if (path != steps.segment) std::filesystem::remove(path);
    }
    replace(steps.segment, steps.three);
    replace(steps.bench.folder / "rank-0000-00000002-epoch-000001.segment",
            steps.three.substr(0, length));
    CHECK(steps.bench.steps_read() == steps_up_to(3));
    auto sink = steps.bench.written(5, 4);
    CHECK(steps.bench.steps_read() == steps_up_to(5));
    CHECK(versions_in(*sink) == versions_after(5));
  }
}

TEST_CASE("damage of any byte before a complete commit is reported with file and byte", "[file]") {
  ThreeSteps steps;
  const std::string name = steps.segment.filename().string();
  for (std::size_t at = 0; at < steps.two.size(); ++at) {
    CAPTURE(at);
    std::string damaged = steps.three;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    replace(steps.segment, damaged);
    sink::FileSink sink{{.folder = steps.bench.folder}};
    CHECK_THROWS_AS(versions_in(sink), RecordError);
    CHECK_THROWS_WITH(versions_in(sink), ContainsSubstring(name) && ContainsSubstring(", byte "));
    CHECK_THROWS_AS(steps.bench.steps_read(), RecordError);
    CHECK_THROWS_WITH(steps.bench.steps_read(), ContainsSubstring(name));
    CHECK(kind_of_failure([&] { (void)sink.state(); }) == SinkError::Kind::wrong);
    CHECK(kind_of_failure([&] { sink.write(file_step(4)); }) == SinkError::Kind::wrong);
    CHECK(contents(steps.segment) == damaged);  // a damaged segment is not truncated
  }
}

TEST_CASE("damage in a segment before the last one is reported, also at its end", "[file]") {
  ThreeSteps steps;
  auto sink = steps.bench.open();
  sink->write(file_step(4));  // in a new segment
  REQUIRE(steps.bench.segments().size() == 2);
  for (std::size_t at = 0; at < steps.three.size(); at += 5) {
    CAPTURE(at);
    std::string damaged = steps.three;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    replace(steps.segment, damaged);
    CHECK_THROWS_AS(versions_in(*sink), RecordError);
    CHECK_THROWS_AS(steps.bench.steps_read(), RecordError);
  }
  replace(steps.segment, steps.three.substr(0, steps.three.size() - 8));
  CHECK_THROWS_AS(versions_in(*sink), RecordError);
  CHECK_THROWS_AS(steps.bench.steps_read(), RecordError);
}

TEST_CASE("a reader at a torn end gets an error when another segment follows", "[file]") {
  ThreeSteps steps;
  replace(steps.segment, steps.three.substr(0, steps.three.size() - 8));
  sink::FileSource source{steps.bench.folder};
  for (int step = 1; step <= 2; ++step) REQUIRE(source.next(std::chrono::nanoseconds{0}));
  CHECK(!source.next(std::chrono::nanoseconds{0}));
  CHECK(!source.next(std::chrono::nanoseconds{0}));
  replace(steps.bench.folder / "rank-0000-00000002-epoch-000001.segment", steps.three);
  CHECK_THROWS_AS(source.next(std::chrono::nanoseconds{0}), RecordError);
}

TEST_CASE("a complete batch with wrong rows, rank or count is refused with the reason", "[file]") {
  ThreeSteps steps;
  const auto with = [&](const StepBatch& batch, bool counted = true) {
    std::vector<std::byte> bytes(batch.records().begin(), batch.records().end());
    StepCommit commit = batch.commit;
    if (!counted) commit.rows += 1;
    append_record(bytes, commit);
    replace(steps.segment,
            steps.two + std::string{reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  };
  StepBatch outside = file_step(3);
  const float numbers[3] = {};
  outside.add({.version = {1, 3}, .row = 100, .weights = numbers});
  with(outside);
  CHECK_THROWS_WITH(steps.bench.steps_read(), ContainsSubstring("row 100 of table 't'"));
  with(file_step(3, 1));
  CHECK_THROWS_WITH(steps.bench.steps_read(), ContainsSubstring("rank 1"));
  with(file_step(3), false);
  CHECK_THROWS_WITH(steps.bench.steps_read(), ContainsSubstring("3 rows follows 2 rows"));
  with(file_step(3));
  CHECK(steps.bench.steps_read() == steps_up_to(3));
}

}  // namespace millrace::test
