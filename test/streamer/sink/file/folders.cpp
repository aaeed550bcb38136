// The owner of a folder, and the folder's contents.
#include <unistd.h>

#include <barrier>
#include <fstream>
#include <thread>

#include "sink/file/address.hpp"
#include "sink/file/folder.hpp"
#include "test/streamer/sink/file/file_bench.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("two sinks cannot write for one rank at once", "[file]") {
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
  CHECK(versions_in(*second) == versions_after(3));
}

TEST_CASE("a full segment or a new epoch starts a new segment", "[file]") {
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
  CHECK(bench.steps_read().size() == 21);
}

TEST_CASE("a file sink refuses a folder with foreign files and leaves it unchanged", "[file]") {
  FileBench bench;
  std::filesystem::create_directories(bench.folder);
  replace(bench.folder / "diary.txt", "today");
  CHECK(kind_of_failure([&] { (void)bench.open(); }) == SinkError::Kind::wrong);
  CHECK_THROWS_WITH(bench.open(), ContainsSubstring("diary.txt"));
  CHECK(std::distance(std::filesystem::directory_iterator{bench.folder}, {}) == 1);
}

TEST_CASE("ranks that begin a folder at the same instant agree on one schema", "[file]") {
  const ScratchFolder scratch;
  const StreamSchema schema{.content = RowContent::weights,
                            .tables = {{.name = "t", .rows = 1, .width = 1}}};
  for (int round = 0; round < 100; ++round) {
    const std::filesystem::path folder = scratch / std::to_string(round);
    std::vector<std::string> problems(6);
    std::barrier begin{static_cast<std::ptrdiff_t>(problems.size())};
    std::vector<std::thread> ranks;
    for (std::size_t rank = 0; rank < problems.size(); ++rank) {
      ranks.emplace_back([&, rank] {
        begin.arrive_and_wait();
        try {
          if (sink::create_schema(folder, schema) != schema) problems[rank] = "another schema";
          std::ofstream{folder / ("rank-" + std::to_string(rank) + ".segment")} << "rows";
        } catch (const SinkError& error) {
          problems[rank] = error.what();
        }
      });
    }
    for (std::thread& rank : ranks) rank.join();
    CHECK(problems == std::vector<std::string>(problems.size()));
  }
}

TEST_CASE("a file in place of the folder is refused as wrong", "[file]") {
  FileBench bench;
  replace(bench.folder, "a file");
  CHECK(kind_of_failure([&] { (void)bench.open(); }) == SinkError::Kind::wrong);
}

TEST_CASE("a file that is not a schema is reported by name", "[file]") {
  FileBench bench;
  (void)bench.written(1);
  replace(bench.folder / "schema.json", "{");
  sink::FileSink sink{{.folder = bench.folder}};
  CHECK(kind_of_failure([&] { (void)sink.state(); }) == SinkError::Kind::wrong);
  CHECK_THROWS_WITH(sink.state(), ContainsSubstring("schema.json"));
}

TEST_CASE("files that are not segments are ignored", "[file]") {
  FileBench bench;
  auto sink = bench.written(2);
  for (const char* name :
       {"rank-0-1-epoch-1.segment", "rank-0001-00000001-epoch-000001.segment~", "notes",
        "rank--001-00000001-epoch-000001.segment", "rank-99999999999-00000001-epoch-000001.segment",
        "rank-0001-00000001-epoch-000001x.segment"}) {
    replace(bench.folder / name, "nothing of ours");
    CHECK(!sink::parse_segment_name(name));
  }
  CHECK(bench.steps_read() == steps_up_to(2));
  CHECK(sink->state().commits.size() == 1);
  CHECK(versions_in(*sink) == versions_after(2));
}

TEST_CASE("a new request replaces any earlier content of the request file", "[file]") {
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

TEST_CASE("names of segments with any numbers are read back", "[file]") {
  for (const sink::SegmentName name :
       {sink::SegmentName{0, 1, 1}, sink::SegmentName{12345, 123456789, 1234567},
        sink::SegmentName{~0U, ~0ULL, ~0ULL}, sink::SegmentName{3, 4, 5, true}}) {
    CHECK(sink::parse_segment_name(to_string(name)) == name);
  }
}

TEST_CASE("a position in a removed segment is reported as lost", "[file]") {
  FileBench bench;
  bench.segment_bytes = 1000;
  auto sink = bench.written(20);
  sink::FileSource source{bench.folder};
  const auto first = source.next(std::chrono::nanoseconds{0});
  REQUIRE(first);
  std::filesystem::remove(bench.segments().at(0));
  sink::FileSource later{bench.folder};
  CHECK(kind_of_failure([&] { later.seek(first->position); }) == SinkError::Kind::lost);
  later.seek("");  // to the first remaining segment
  CHECK(later.next(std::chrono::nanoseconds{0})->batch.commit.version.step > 1);
}

TEST_CASE("a position inside a batch is refused", "[file]") {
  FileBench bench;
  auto sink = bench.written(3);
  const std::size_t size = contents(bench.segments().at(0)).size();
  sink::FileSource rest{bench.folder};
  while (const auto next = rest.next(std::chrono::nanoseconds{0})) {
    const std::string right = next->position;
    const std::size_t begin = right.find(':', 2) + 1, end = right.find(':', begin);
    std::size_t taken = 0;
    for (std::size_t offset = 0; offset <= size + 8; ++offset) {
      sink::FileSource source{bench.folder};
      const std::string position =
          right.substr(0, begin) + std::to_string(offset) + right.substr(end);
      if (kind_of_failure([&] { source.seek(position); })) continue;
      CHECK(position == right);
      ++taken;
    }
    CHECK(taken == 1);  // only the position after its commit
  }
}

TEST_CASE("a source gives the oldest step of several ranks first", "[file]") {
  FileBench bench;
  auto sink = bench.written(5);
  for (std::uint64_t step = 1; step <= 7; ++step) sink->write(file_step(step, 3));
  CHECK(bench.steps_read() == std::vector<std::uint64_t>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7});
}

TEST_CASE("a position in another folder is lost, even if all numbers are equal", "[file]") {
  FileBench one, other;
  auto sink = one.written(5);
  (void)other.written(5);
  sink::FileSource source{one.folder};
  const auto third = [&] {
    for (int step = 1; step < 3; ++step) (void)source.next(std::chrono::nanoseconds{0});
    return source.next(std::chrono::nanoseconds{0});
  }();
  REQUIRE(third);
  sink::FileSource here{one.folder}, there{other.folder};
  here.seek(third->position);
  CHECK(here.next(std::chrono::nanoseconds{0})->batch.commit.version == Version{1, 4});
  CHECK(kind_of_failure([&] { there.seek(third->position); }) == SinkError::Kind::lost);
}

TEST_CASE("a position is valid in a copied folder up to the first different batch", "[file]") {
  FileBench one, other;
  (void)one.written(3);
  std::filesystem::copy(one.folder, other.folder);
  auto here = one.written(6, 4);
  auto there = other.open();
  StepBatch restarted = file_step(4, 0, 1);
  restarted.commit.version = {2, 1};
  there->write(restarted);
  const auto after = [&](int steps) {
    sink::FileSource source{one.folder};
    for (; steps > 1; --steps) (void)source.next(std::chrono::nanoseconds{0});
    return source.next(std::chrono::nanoseconds{0})->position;
  };
  sink::FileSource source{other.folder};
  source.seek(after(3));
  CHECK(source.next(std::chrono::nanoseconds{0})->batch.commit.version == Version{2, 1});
  CHECK(kind_of_failure([&] { source.seek(after(4)); }) == SinkError::Kind::lost);
}

TEST_CASE("a reader of a folder that is emptied and filled again gets a lost error", "[file]") {
  FileBench bench;
  (void)bench.written(3);
  sink::FileSource source{bench.folder};
  for (int step = 1; step <= 3; ++step) REQUIRE(source.next(std::chrono::nanoseconds{0}));
  std::filesystem::remove_all(bench.folder);
  CHECK(!source.next(std::chrono::nanoseconds{0}));
  const std::uint64_t last = GENERATE(1, 3, 5);  // fewer steps than it read, as many, more
  (void)bench.written(last);
  CHECK(kind_of_failure([&] { (void)source.next(std::chrono::nanoseconds{0}); }) ==
        SinkError::Kind::lost);
  source.seek("");
  CHECK(source.next(std::chrono::nanoseconds{0})->batch.commit.version == Version{1, 1});
}

TEST_CASE("a folder that is emptied between writes reports lost, and is filled again", "[file]") {
  FileBench bench;
  auto sink = bench.written(3);
  const auto how = GENERATE(0, 1, 2);
  CAPTURE(how);
  if (how == 0) std::filesystem::remove_all(bench.folder);
  if (how == 1) std::filesystem::rename(bench.folder, bench.temporary.path() / "elsewhere");
  if (how == 2) {
    for (const auto& path : bench.segments()) std::filesystem::remove(path);
    std::filesystem::remove(bench.folder / "schema.json");
  }
  CHECK(kind_of_failure([&] { sink->write(file_step(4)); }) == SinkError::Kind::lost);
  CHECK(kind_of_failure([&] { sink->write(file_step(4)); }) == SinkError::Kind::lost);
  StepBatch snapshot = file_step(4);
  snapshot.commit.after = {};
  sink->write(snapshot);
  sink->write(file_step(5));
  CHECK(bench.steps_read() == std::vector<std::uint64_t>{4, 5});
  CHECK(bench.open()->state().commits.at(0).version == Version{1, 5});
  CHECK(versions_in(*sink).size() == 3);
}

TEST_CASE("a flush finds that the folder was emptied after the last write", "[file]") {
  FileBench bench;
  auto sink = bench.written(3);
  CHECK(sink->state().commits.size() == 1);
  std::filesystem::remove_all(bench.folder);
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
  CHECK(sink->state().commits.empty());
  sink->flush();
}

TEST_CASE("a file address has a folder and settings", "[file]") {
  const sink::FileOptions plain = sink::parse_file_address("file:/tmp/b=c");
  CHECK(plain.folder == "/tmp/b=c");
  CHECK(plain.keep == sink::Keep::all);
  const sink::FileOptions set = sink::parse_file_address("file:x?keep=newest&segment_bytes=4096");
  CHECK(set.folder == "x");
  CHECK(set.keep == sink::Keep::newest);
  CHECK(set.segment_bytes == 4096);
  for (const char* spec : {"file:", "file:?keep=all", "file:x?", "file:x?keep", "file:x?keep=some",
                           "file:x?segment_bytes=0", "file:x?segment_bytes=1k", "file:x?keep=all&",
                           "file:x?segment_bytes=99999999999999999999"}) {
    CAPTURE(spec);
    CHECK_THROWS_AS(sink::parse_file_address(spec), std::invalid_argument);
  }
}

TEST_CASE("a leftover of a writer that was killed is no second name of the schema", "[file]") {
  FileBench bench;
  static_cast<void>(bench.open());
  const std::string schema = contents(bench.folder / "schema.json");
  // A temporary file gets the schema's name by a link, and keeps its own if its writer is killed
  // then. Another process may have its number, or the same one on another machine.
  for (int i = 0; i < 256; ++i) {
    const std::string name = ".unfinished-" + std::to_string(::getpid()) + "-" + std::to_string(i);
    std::filesystem::create_hard_link(bench.folder / "schema.json", bench.folder / name);
  }
  for (int i = 0; i < 3; ++i) sink::FileSource{bench.folder}.ask_for_snapshot();
  CHECK(contents(bench.folder / "schema.json") == schema);
}

TEST_CASE("a folder whose time is up is not read, and is read once it has time again", "[file]") {
  FileBench bench;
  const auto sink = bench.written(3);
  sink->finish_by(std::chrono::steady_clock::now());
  CHECK(kind_of_failure([&] { (void)versions_in(*sink); }) == SinkError::Kind::retry);
  sink->finish_by(std::chrono::steady_clock::time_point::max());
  CHECK(versions_in(*sink) == versions_after(3));
}

}  // namespace millrace::test
