// A folder whose closed segments are compacted while it is written to.
#include "sink/file/compaction.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <random>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/streamer/applier.hpp"
#include "millrace/streamer/memory_sink.hpp"
#include "test/streamer/sink/file/file_bench.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

constexpr std::chrono::nanoseconds kNow{0};
constexpr std::int64_t kRows = 100;

using Contents = std::map<std::int64_t, std::pair<Version, float>>;

Contents contents_in(Sink& sink) {
  Contents contents;
  sink.read([&](const RowRecord& row) { contents[row.row] = {row.version, row.weights[1]}; });
  return contents;
}

/// Describes the first row that differs; empty if no row does.
std::string difference(const Contents& found, const Contents& right) {
  const auto shown = [](const Contents& contents, std::int64_t row) {
    const auto value = contents.find(row);
    return value == contents.end() ? "nothing" : to_string(value->second.first);
  };
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::string here = shown(found, row), there = shown(right, row);
    if (here != there) return "row " + std::to_string(row) + ": " + here + ", not " + there;
  }
  return found == right ? "" : "other numbers";
}

/// Random steps of one rank. Some rows change often, some once. Now and then a chain begins, a
/// trainer restarts, or a row is delivered late, with an older version.
class Steps {
 public:
  explicit Steps(std::uint64_t drawn_from, std::uint32_t rank = 0) : random_(drawn_from) {
    commit_.rank = rank;
    commit_.ranks = 4;
  }

  [[nodiscard]] StepBatch next() {
    const bool starts = newest_ == Version{} || random_() % 40 == 0;
    const Version version =
        starts ? Version{newest_.epoch + 1, 1} : Version{newest_.epoch, newest_.step + 1};
    StepBatch batch;
    batch.commit = commit_;
    batch.commit.version = version;
    batch.commit.step = version.step;
    batch.commit.after = random_() % 60 == 0 ? Version{} : newest_;
    batch.commit.missing = random_() % 3;
    std::map<std::int64_t, Version> rows;
    for (std::uint64_t left = random_() % 6; left > 0; --left) {
      const auto row =
          static_cast<std::int64_t>(random_() % 3 == 0 ? random_() % kRows : random_() % 10);
      const bool late = random_() % 8 == 0;
      rows[row] = late ? Version{version.epoch, 1 + random_() % version.step} : version;
    }
    for (const auto& [row, of_row] : rows) {
      const float value = static_cast<float>(of_row.epoch * 1000 + of_row.step);
      const std::array<float, 3> numbers{static_cast<float>(row), value, 0.5F};
      batch.add({.version = of_row, .row = row, .weights = numbers});
    }
    newest_ = version;
    return batch;
  }

 private:
  std::mt19937_64 random_;
  StepCommit commit_;
  Version newest_;
};

/// A folder of small segments that is compacted, and a sink with the contents that it must have.
struct Compacted {
  FileBench bench;
  MemorySink right;
  std::unique_ptr<Sink> sink;
  Steps steps;
  std::vector<StepBatch> all;

  explicit Compacted(std::uint64_t drawn_from) : steps(drawn_from) {
    bench.keep = sink::Keep::newest;
    bench.segment_bytes = 1000;
    right.begin(file_schema());
    sink = bench.open();
  }
  void write(unsigned count) {
    for (; count > 0; --count) {
      all.push_back(steps.next());
      sink->write(all.back());
      right.write(all.back());
    }
  }
  [[nodiscard]] std::size_t compacted_ones() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        bench.segments(), [](const auto& path) { return path.extension() == ".compacted"; }));
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& path : bench.segments()) bytes += std::filesystem::file_size(path);
    return bytes;
  }
};

/// Applies all batches, or stops after `most` calls.
ApplyReport apply(const std::filesystem::path& folder, Sink& copy, std::size_t most = 100'000) {
  VirtualMachine machine;
  sink::FileSource source{folder};
  Applier applier{source, copy, machine.executor()};
  for (unsigned idle = 0; most > 0 && idle < 2; --most) {  // the applier may have to start again
    idle = applier.apply_next(kNow, [] { return true; }) ? 0 : idle + 1;
  }
  return applier.report();
}

}  // namespace

TEST_CASE("a compacted folder has the same rows and commits as an uncompacted one", "[file]") {
  for (std::uint64_t program = 0; program < 8; ++program) {
    CAPTURE(program);
    Compacted folder{seed() * 100 + program};
    for (int round = 0; round < 10; ++round) {
      folder.write(50);
      REQUIRE(difference(contents_in(*folder.sink), contents_in(folder.right)) == "");
      if (round % 3 == 0) {
        folder.sink.reset();
        folder.sink = folder.bench.open();
      }
      REQUIRE(folder.sink->state().commits == folder.right.state().commits);
    }
    CHECK(folder.compacted_ones() == 1);
    CHECK(std::distance(std::filesystem::directory_iterator{folder.bench.folder}, {}) ==
          static_cast<std::ptrdiff_t>(folder.bench.segments().size()) + 2);  // schema and lock
  }
}

TEST_CASE("a copy made from a compacted folder is the same as from the whole log", "[file]") {
  for (std::uint64_t program = 0; program < 8; ++program) {
    CAPTURE(program);
    Compacted folder{seed() * 100 + program};
    folder.write(500);
    REQUIRE(folder.compacted_ones() == 1);
    MemorySink copy;
    const ApplyReport report = apply(folder.bench.folder, copy);
    CAPTURE(report.last_error);
    CHECK(difference(contents_in(copy), contents_in(folder.right)) == "");
    CHECK(copy.state().commits.at(0).version == folder.right.state().commits.at(0).version);
    CHECK(copy.state().missing() == folder.right.state().missing());
    CHECK(report.batches < folder.all.size());
    CHECK(report.gaps == 0);
  }
}

TEST_CASE("no commit in a compacted segment reports too few missing rows", "[file]") {
  Compacted folder{seed() + 3};
  folder.write(400);
  std::map<Version, Contents> right;  // contents after each commit
  MemorySink now;
  now.begin(file_schema());
  for (const StepBatch& batch : folder.all) {
    now.write(batch);
    right[batch.commit.version] = contents_in(now);
  }
  MemorySink copy;
  copy.begin(file_schema());
  sink::FileSource source{folder.bench.folder};
  std::size_t behind = 0;
  while (auto next = source.next(kNow)) {
    next->batch.commit.after = {};
    copy.write(next->batch);
    const Contents& there = right.at(next->batch.commit.version);
    std::uint64_t lacking = 0;
    const Contents copied = contents_in(copy);
    for (const auto& [row, value] : there) {
      const auto found = copied.find(row);
      lacking += found == copied.end() || found->second != value;
    }
    CHECK(next->batch.commit.missing >= lacking);
    behind += lacking > 0;
  }
  CHECK(behind > 0);
}

TEST_CASE("a copy continues from any commit, whatever was compacted meanwhile", "[file]") {
  std::mt19937_64 random{seed()};
  for (std::uint64_t program = 0; program < 12; ++program) {
    CAPTURE(program);
    Compacted folder{seed() * 100 + program};
    MemorySink copy;
    std::uint64_t gaps = 0;
    folder.write(5);
    for (int round = 0; round < 12; ++round) {
      gaps += apply(folder.bench.folder, copy, random() % 60).gaps;
      folder.write(static_cast<unsigned>(random() % 80));
    }
    const ApplyReport report = apply(folder.bench.folder, copy);
    CAPTURE(report.last_error);
    gaps += report.gaps;
    CHECK(difference(contents_in(copy), contents_in(folder.right)) == "");
    CHECK(copy.state().commits.at(0).version == folder.right.state().commits.at(0).version);
    // A copy that stopped inside segments compacted by another start of the trainer may request a
    // snapshot.
    CHECK((gaps == 0 || folder.sink->snapshot_request() > 0));
  }
}

TEST_CASE("a reader that follows a folder during compaction gets all rows without a gap",
          "[file]") {
  FileBench bench;
  bench.keep = sink::Keep::newest;
  bench.segment_bytes = 1000;
  auto sink = bench.open();
  MemorySink copy;
  VirtualMachine machine;
  sink::FileSource source{bench.folder};
  Applier applier{source, copy, machine.executor()};
  std::mt19937_64 random{seed()};
  for (std::uint64_t step = 1; step <= 500; ++step) {
    StepBatch batch;
    batch.commit = {.version = {1, step}, .after = {1, step - 1}, .step = step, .ranks = 1};
    if (step == 1) batch.commit.after = {};
    const std::array<float, 3> numbers{static_cast<float>(step), 1, 2};
    batch.add(
        {.version = {1, step}, .row = static_cast<std::int64_t>(step % 7), .weights = numbers});
    sink->write(batch);
    if (step % 70 != 0) continue;  // the applier falls behind, into compacted segments
    for (std::uint64_t take = 50 + random() % 15; take > 0; --take) {
      (void)applier.apply_next(kNow, [] { return true; });
    }
  }
  while (applier.apply_next(kNow, [] { return true; })) {
  }
  CHECK(difference(contents_in(copy), contents_in(*sink)) == "");
  CHECK(applier.report().gaps == 0);
  CHECK(applier.report().complete);
  CHECK(sink->snapshot_request() == 0);
}

TEST_CASE("a compacted folder stays below three times its rows plus a few segments", "[file]") {
  Compacted folder{seed()};
  std::uint64_t most = 0;
  for (int round = 0; round < 200; ++round) {
    folder.write(20);
    most = std::max(most, folder.bytes());
  }
  const std::uint64_t rows = kRows * record_bytes(3);
  CHECK(most < 3 * rows + 12 * 1000 + 4 * 1500);
  std::uint64_t written = 0;
  for (const StepBatch& batch : folder.all) written += batch.bytes();
  CHECK(written > 2 * most);
}

TEST_CASE("a folder with keep=all is never compacted", "[file]") {
  FileBench bench;
  bench.segment_bytes = 500;
  auto sink = bench.written(90);
  CHECK(bench.segments().size() > 20);
  CHECK(bench.steps_read() == steps_up_to(90));
}

namespace {

/// A disk that dies at an operation. A write is half done then; later operations are not done.
class DyingDisk final : public sink::Disk {
 public:
  struct Died {};
  std::size_t left = ~std::size_t{0};  ///< operations until it dies

  ssize_t write(int file, const void* from, std::size_t bytes) override {
    const bool last = left == 1;
    live();
    const ssize_t written = Disk::write(file, from, last ? bytes / 2 : bytes);
    if (last) throw Died{};
    return written;
  }
  int fsync(int) override {
    live();
    return 0;
  }
  int ftruncate(int file, off_t bytes) override {
    live();
    return Disk::ftruncate(file, bytes);
  }
  int rename(const char* from, const char* to) override {
    live();
    return Disk::rename(from, to);
  }
  int unlink(const char* path) override {  // called in clean-up too, so it never throws
    if (left == 0) return -1;
    --left;
    return Disk::unlink(path);
  }

 private:
  void live() {
    if (left == 0) throw Died{};
    --left;
  }
};

}  // namespace

TEST_CASE("a writer that dies at any file operation of a compaction loses no row", "[file]") {
  for (std::size_t dies_at = 1;; ++dies_at) {
    CAPTURE(dies_at);
    Compacted folder{seed() + 11};
    folder.write(5);
    folder.sink.reset();
    DyingDisk disk;
    sink::FileOptions options{.folder = folder.bench.folder,
                              .segment_bytes = 400,
                              .keep = sink::Keep::newest,
                              .disk = &disk};
    auto sink = std::make_unique<sink::FileSink>(options);
    std::vector<StepBatch> written;
    bool died = false;
    disk.left = dies_at;
    while (!died && written.size() < 60) {
      const StepBatch batch = folder.steps.next();
      written.push_back(batch);
      try {
        sink->write(batch);
        folder.right.write(batch);
      } catch (const DyingDisk::Died&) {
        died = true;
      }
    }
    sink.reset();
    MemorySink copy;
    apply(folder.bench.folder, copy);  // the folder as the writer left it
    disk.left = ~std::size_t{0};
    options.keep = sink::Keep::all;  // the next writer cleans up and does not compact
    sink = std::make_unique<sink::FileSink>(options);
    if (died) {
      const Version there = sink->state().commits.at(0).version;
      if (there == written.back().commit.version) folder.right.write(written.back());
      sink->write(written.back());  // may be a repeat
      CHECK(sink::superseded_in(folder.bench.folder, 0).empty());
      CHECK(!std::filesystem::exists(folder.bench.folder / ".compacting-rank-0000"));
    }
    REQUIRE(difference(contents_in(copy), contents_in(folder.right)) == "");
    if (died && contents_in(*sink) != contents_in(folder.right)) folder.right.write(written.back());
    REQUIRE(difference(contents_in(*sink), contents_in(folder.right)) == "");
    apply(folder.bench.folder, copy);
    REQUIRE(difference(contents_in(copy), contents_in(folder.right)) == "");
    if (!died) break;
  }
}

TEST_CASE("a disk failure during a compaction does not fail a write", "[file]") {
  Compacted folder{seed() + 4};
  folder.write(15);
  folder.bench.disk.renames = false;
  folder.write(200);
  CHECK(folder.compacted_ones() == 0);
  CHECK(difference(contents_in(*folder.sink), contents_in(folder.right)) == "");
  folder.bench.disk.renames = true;
  folder.write(100);
  CHECK(folder.compacted_ones() == 1);
  CHECK(difference(contents_in(*folder.sink), contents_in(folder.right)) == "");
}

TEST_CASE("damaged segments are not compacted", "[file]") {
  Compacted folder{seed() + 5};
  while (folder.bench.segments().size() < 2) folder.write(1);
  const auto first = folder.bench.segments().front();
  std::string damaged = contents(first);
  damaged[damaged.size() / 2] ^= 1;
  replace(first, damaged);
  folder.write(200);
  CHECK(folder.compacted_ones() == 0);
  CHECK(contents(first) == damaged);
}

namespace {

/// Notes calls of the disk in their order.
class NotingDisk final : public sink::Disk {
 public:
  int fsync(int file) override {
    struct ::stat of {};
    ::fstat(file, &of);
    calls.emplace_back(S_ISDIR(of.st_mode) ? "sync the folder" : "sync a file");
    return 0;
  }
  int unlink(const char* path) override {
    calls.emplace_back("remove");
    return Disk::unlink(path);
  }
  std::vector<std::string> calls;
};

}  // namespace

TEST_CASE("a writer syncs the folder before it removes what the last one left", "[file]") {
  Compacted folder{seed()};
  while (folder.compacted_ones() == 0) folder.write(1);
  folder.sink.reset();
  // The state after a kill between the rename of a compacted segment and the removal of the
  // segments that it replaces: one of them is there again.
  std::filesystem::path compacted;
  for (const auto& path : folder.bench.segments()) {
    if (path.extension() == ".compacted") compacted = path;
  }
  auto replaced = *sink::parse_segment_name(compacted.filename().string());
  replaced.compacted = false;
  std::filesystem::copy_file(compacted, folder.bench.folder / to_string(replaced));
  NotingDisk disk;
  sink::FileSink next{sink::FileOptions{.folder = folder.bench.folder,
                                        .segment_bytes = 1000,
                                        .keep = sink::Keep::newest,
                                        .disk = &disk}};
  next.begin(file_schema());
  static_cast<void>(kind_of_failure([&] { next.write(folder.steps.next()); }));
  const auto removed = std::ranges::find(disk.calls, "remove");
  REQUIRE(removed != disk.calls.end());
  CHECK(std::find(disk.calls.begin(), removed, "sync the folder") != removed);
}

}  // namespace millrace::test
