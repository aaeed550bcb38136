// Whose a folder is, and what is in it.
#include "sink/file/folder.hpp"
#include "test/streamer/sink/file/file_bench.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("two sinks do not write for one rank at once", "[file]") {
  FileBench bench;
  auto first = bench.written(1);
  auto second = bench.open();
  CHECK(kind_of_failure([&] { second->write(file_step(2)); }) == SinkError::Kind::wrong);
  CHECK_THROWS_WITH(second->write(file_step(2)), ContainsSubstring("rank 0"));
  second->write(file_step(1, 1));
  CHECK(kind_of_failure([&] { first->write(file_step(2, 1)); }) == SinkError::Kind::wrong);
  first->write(file_step(2));
  first.reset();
  second->write(file_step(3));
  CHECK(versions_in(*second) == versions_behind(3));
}

TEST_CASE("a segment that is large enough, or of an epoch before, is followed by another",
          "[file]") {
  FileBench bench;
  bench.segment_bytes = 1000;
  auto sink = bench.written(20);
  const std::size_t of_first = bench.segments().size();
  CHECK(of_first > 3);
  for (const auto& path : bench.segments()) {
    CHECK(std::filesystem::file_size(path) < 1000 + 300);
    CHECK(sink::SegmentReader{path}.next()->kind == RecordKind::schema);
  }
  sink->write(file_step(1, 0, 2));
  REQUIRE(bench.segments().size() == of_first + 1);
  CHECK_THAT(bench.segments().back().string(), ContainsSubstring("epoch-000002"));
  CHECK(bench.told().size() == 21);
}

TEST_CASE("a folder in which others keep things is left alone", "[file]") {
  FileBench bench;
  std::filesystem::create_directories(bench.folder);
  replace(bench.folder / "diary.txt", "today");
  CHECK(kind_of_failure([&] { (void)bench.open(); }) == SinkError::Kind::wrong);
  CHECK_THROWS_WITH(bench.open(), ContainsSubstring("diary.txt"));
  CHECK(std::distance(std::filesystem::directory_iterator{bench.folder}, {}) == 1);
}

TEST_CASE("a file where the folder would be is wrong", "[file]") {
  FileBench bench;
  replace(bench.folder, "a file");
  CHECK(kind_of_failure([&] { (void)bench.open(); }) == SinkError::Kind::wrong);
}

TEST_CASE("a schema that is none is told with its file", "[file]") {
  FileBench bench;
  (void)bench.written(1);
  replace(bench.folder / "schema.json", "{");
  sink::FileSink sink{{.folder = bench.folder}};
  CHECK(kind_of_failure([&] { (void)sink.state(); }) == SinkError::Kind::wrong);
  CHECK_THROWS_WITH(sink.state(), ContainsSubstring("schema.json"));
}

TEST_CASE("files that are no segments are passed by", "[file]") {
  FileBench bench;
  auto sink = bench.written(2);
  for (const char* name :
       {"rank-0-1-epoch-1.segment", "rank-0001-00000001-epoch-000001.segment~", "notes",
        "rank--001-00000001-epoch-000001.segment", "rank-99999999999-00000001-epoch-000001.segment",
        "rank-0001-00000001-epoch-000001x.segment"}) {
    replace(bench.folder / name, "nothing of ours");
    CHECK(!sink::parse_segment_name(name));
  }
  CHECK(bench.told() == steps_up_to(2));
  CHECK(sink->state().marks.size() == 1);
  CHECK(versions_in(*sink) == versions_behind(2));
}

TEST_CASE("a request is made whatever was asked for before", "[file]") {
  const ScratchFolder folder;
  const std::filesystem::path wanted = folder / "snapshot-wanted";
  for (const char* before : {"18446744073709551615", "99999999999999999999", "please", "", "7"}) {
    CAPTURE(before);
    std::ofstream{wanted} << before;
    sink::request_snapshot(folder.path());
    const std::uint64_t number = sink::snapshot_request_in(folder.path());
    CHECK(number > 1'700'000'000'000);
    CHECK(number < ~0ULL);
    sink::request_snapshot(folder.path());
    CHECK(sink::snapshot_request_in(folder.path()) != number);
  }
}

TEST_CASE("names of segments are read back, whatever their numbers", "[file]") {
  for (const sink::SegmentName name :
       {sink::SegmentName{0, 1, 1}, sink::SegmentName{12345, 123456789, 1234567},
        sink::SegmentName{~0U, ~0ULL, ~0ULL}}) {
    CHECK(sink::parse_segment_name(to_string(name)) == name);
  }
}

TEST_CASE("who reads a segment that was taken away is told that it is lost", "[file]") {
  FileBench bench;
  bench.segment_bytes = 1000;
  auto sink = bench.written(20);
  sink::FileSource source{bench.folder};
  const auto first = source.next(std::chrono::nanoseconds{0});
  REQUIRE(first);
  std::filesystem::remove(bench.segments().at(0));
  sink::FileSource later{bench.folder};
  CHECK(kind_of_failure([&] { later.seek(first->position); }) == SinkError::Kind::lost);
  later.seek("");  // to the beginning of what is there
  CHECK(later.next(std::chrono::nanoseconds{0})->batch.mark.version.step > 1);
}

TEST_CASE("a position inside of a batch is not gone on from", "[file]") {
  FileBench bench;
  auto sink = bench.written(3);
  const std::size_t size = contents(bench.segments().at(0)).size();
  std::size_t taken = 0;
  for (std::size_t offset = 0; offset <= size + 8; ++offset) {
    sink::FileSource source{bench.folder};
    if (!kind_of_failure([&] { source.seek("0:1:" + std::to_string(offset)); })) ++taken;
  }
  CHECK(taken == 3);  // behind each mark
}

TEST_CASE("of several ranks a source tells the oldest step first", "[file]") {
  FileBench bench;
  auto sink = bench.written(5);
  for (std::uint64_t step = 1; step <= 7; ++step) sink->write(file_step(step, 3));
  CHECK(bench.told() == std::vector<std::uint64_t>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7});
}

}  // namespace millrace::test
