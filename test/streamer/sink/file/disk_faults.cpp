// A disk that is full, or fails.
#include "test/streamer/sink/file/file_bench.hpp"
#include "test/support/small_disk.hpp"

namespace millrace::test {

TEST_CASE("a disk that fills up within a batch leaves none of it, and a retry writes all",
          "[file]") {
  const std::size_t bytes = [] {
    FileBench bench;
    (void)bench.written(1);
    return contents(bench.segments().at(0)).size();
  }();
  for (std::size_t room = 0; room < bytes; room += 13) {
    CAPTURE(room);
    FileBench bench;
    auto sink = bench.open();
    bench.disk.room = room;
    CHECK(kind_of_failure([&] { sink->write(file_step(1)); }) == SinkError::Kind::retry);
    CHECK(versions_in(*sink).empty());
    CHECK(sink->state().commits.empty());
    CHECK(kind_of_failure([&] { sink->write(file_step(1)); }) == SinkError::Kind::retry);
    bench.disk.room = bytes + 10;  // room for a part of the second step
    sink->write(file_step(1));
    CHECK(kind_of_failure([&] { sink->write(file_step(2)); }) == SinkError::Kind::retry);
    CHECK(versions_in(*sink) == versions_after(1));
    CHECK(bench.steps_read() == steps_up_to(1));
    bench.disk.room = ~std::size_t{0};
    sink->write(file_step(2));
    CHECK(versions_in(*sink) == versions_after(2));
    CHECK(bench.steps_read() == steps_up_to(2));
  }
}

TEST_CASE("a torn batch that cannot be cut off is cut off before the next write", "[file]") {
  FileBench bench;
  auto sink = bench.written(1);
  bench.disk.room = 100;
  bench.disk.cuts = false;
  CHECK(kind_of_failure([&] { sink->write(file_step(2)); }) == SinkError::Kind::retry);
  bench.disk.room = ~std::size_t{0};
  CHECK(kind_of_failure([&] { sink->write(file_step(2)); }) == SinkError::Kind::retry);
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
  CHECK(bench.steps_read() == steps_up_to(1));
  bench.disk.cuts = true;
  sink->write(file_step(2));
  sink->write(file_step(3));
  CHECK(bench.steps_read() == steps_up_to(3));
  CHECK(versions_in(*sink) == versions_after(3));
}

TEST_CASE("a batch that does not reach the disk is lost, and a snapshot repairs it", "[file]") {
  FileBench bench;
  auto sink = bench.written(2);
  sink->flush();
  sink->write(file_step(3));
  sink::FileSource reader{bench.folder};
  for (int step = 1; step <= 3; ++step) REQUIRE(reader.next(std::chrono::nanoseconds{0}));
  bench.disk.reaches = false;
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
  CHECK(sink->state().commits.at(0).version == Version{1, 2});
  bench.disk.reaches = true;
  CHECK(kind_of_failure([&] { sink->write(file_step(4)); }) == SinkError::Kind::lost);
  StepBatch snapshot = file_step(4);
  snapshot.commit.after = {};
  sink->write(snapshot);
  sink->flush();
  CHECK(sink->state().commits.at(0).version == Version{1, 4});
  CHECK(bench.steps_read() == std::vector<std::uint64_t>{1, 2, 4});
  // A reader that is past the cut must not continue in the middle of the new data.
  CHECK(kind_of_failure([&] { (void)reader.next(std::chrono::nanoseconds{0}); }) ==
        SinkError::Kind::lost);
}

TEST_CASE("a real disk that is full makes writes fail until there is room again", "[file]") {
  FileBench bench;
  const SmallDisk disk{bench.folder, 64};
  if (!disk.is_there()) SKIP("a small disk cannot be mounted here: that takes root");
  auto sink = bench.open();
  const std::filesystem::path ballast = bench.folder / ".ballast";
  replace(ballast, std::string(50'000, 'x'));
  std::uint64_t step = 1;
  while (!kind_of_failure([&] { sink->write(file_step(step)); }) && step < 90) ++step;
  REQUIRE(step < 90);  // otherwise the disk was never full
  CHECK(kind_of_failure([&] { sink->write(file_step(step)); }) == SinkError::Kind::retry);
  CHECK(versions_in(*sink) == versions_after(step - 1));
  std::filesystem::remove(ballast);
  sink->write(file_step(step));
  sink->flush();
  CHECK(versions_in(*sink) == versions_after(step));
  CHECK(bench.steps_read() == steps_up_to(step));
}

TEST_CASE("a rank whose rows another rank's flush lost hears of it in its audit", "[file]") {
  FileBench bench;
  const auto sink = bench.open();
  sink->write(file_step(1, 0));
  sink->write(file_step(1, 1));
  const bool removed = GENERATE(false, true);
  if (removed) {
    std::filesystem::remove_all(bench.folder);
  } else {
    bench.disk.good_syncs = 2;  // the file of rank 0 and the folder, but not the file of rank 1
  }
  // Rank 0 flushes until it succeeds.
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
  bench.disk.good_syncs = ~std::size_t{0};
  for (int calls = 0; calls < 3 && kind_of_failure([&] { sink->flush(); }); ++calls) {
  }
  CAPTURE(removed);
  CHECK(kind_of_failure([&] { sink->audit(1, 1); }) == SinkError::Kind::lost);
  CHECK_NOTHROW(sink->audit(1, 1));  // told once
  if (!removed) CHECK_NOTHROW(sink->audit(0, 1));
}

TEST_CASE("a rank that has begun its snapshot is not asked for a second one", "[file]") {
  FileBench bench;
  const auto sink = bench.open();
  sink->write(file_step(1));
  bench.disk.reaches = false;
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
  bench.disk.reaches = true;
  sink->write(file_step(1));  // it begins a chain
  sink->flush();
  CHECK_NOTHROW(sink->audit(0, 1));
}

TEST_CASE("a flush that fails before anything is lost asks for no snapshot", "[file]") {
  FileBench bench;
  const auto sink = bench.written(1);
  bench.disk.room = 100;
  bench.disk.cuts = false;
  CHECK(kind_of_failure([&] { sink->write(file_step(2)); }) == SinkError::Kind::retry);
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);  // it cannot cut off
  bench.disk.room = ~std::size_t{0};
  bench.disk.cuts = true;
  sink->flush();
  CHECK_NOTHROW(sink->audit(0, 1));
}

}  // namespace millrace::test
