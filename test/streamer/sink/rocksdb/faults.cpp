// A RocksDB whose disk is full or fails, that another process has open, or that is not ours.
#include <rocksdb/file_system.h>
#include <rocksdb/options.h>

#include <atomic>
#include <fstream>
#include <random>

#include "sink/rocksdb/rocksdb_sink.hpp"
#include "test/streamer/sink/versions.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"
#include "test/support/small_disk.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using rocksdb::IOStatus;

/// The faults of a disk.
struct Trouble {
  std::atomic<std::int64_t> room{INT64_MAX};  ///< bytes until the disk is full
  std::atomic<bool> reaches{true};            ///< written data can be synchronized

  [[nodiscard]] IOStatus take(std::size_t bytes) {
    if (room.fetch_sub(static_cast<std::int64_t>(bytes)) >= static_cast<std::int64_t>(bytes)) {
      return IOStatus::OK();
    }
    return IOStatus::NoSpace("no room, says the test");
  }
  [[nodiscard]] IOStatus synchronize() const {
    return reaches ? IOStatus::OK() : IOStatus::IOError("not synchronized, says the test");
  }
};

class TroubledFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  TroubledFile(std::unique_ptr<rocksdb::FSWritableFile> file, Trouble& trouble)
      : FSWritableFileOwnerWrapper(std::move(file)), trouble_(trouble) {}

  IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                  rocksdb::IODebugContext* debug) override {
    const IOStatus status = trouble_.take(data.size());
    return status.ok() ? FSWritableFileOwnerWrapper::Append(data, options, debug) : status;
  }
  IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                  const rocksdb::DataVerificationInfo&, rocksdb::IODebugContext* debug) override {
    return Append(data, options, debug);
  }
  // These tests look only at data in the system's memory, so they need not wait for a disk.
  IOStatus Sync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return trouble_.synchronize();
  }
  IOStatus Fsync(const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return trouble_.synchronize();
  }

 private:
  Trouble& trouble_;
};

class TroubledFiles final : public rocksdb::FileSystemWrapper {
 public:
  explicit TroubledFiles(Trouble& trouble)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), trouble_(trouble) {}

  const char* Name() const override { return "TroubledFiles"; }
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* file,
                           rocksdb::IODebugContext* debug) override {
    const IOStatus status = FileSystemWrapper::NewWritableFile(name, options, file, debug);
    if (status.ok()) *file = std::make_unique<TroubledFile>(std::move(*file), trouble_);
    return status;
  }

 private:
  Trouble& trouble_;
};

const StreamSchema& schema() {
  static const StreamSchema one{.tables = {{.name = "t", .rows = 10'000, .width = 256}}};
  return one;
}

/// Step n writes rows n and n + 1.
StepBatch batch_of(std::uint64_t step) {
  StepBatch batch;
  batch.commit.version = {1, step};
  if (step > 1) batch.commit.after = {1, step - 1};
  const std::vector<float> numbers(256, static_cast<float>(step));
  for (const std::uint64_t row : {step, step + 1}) {
    batch.add({.version = {1, step}, .row = static_cast<std::int64_t>(row), .weights = numbers});
  }
  return batch;
}

struct RocksdbBench {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path() / "rows";
  Trouble trouble;
  std::unique_ptr<rocksdb::Env> env =
      rocksdb::NewCompositeEnv(std::make_shared<TroubledFiles>(trouble));

  [[nodiscard]] sink::RocksdbOptions options() const {
    return {.folder = folder, .env = env.get(), .write_buffer_bytes = 64 << 10};
  }
  [[nodiscard]] std::unique_ptr<Sink> open() {
    auto sink = std::make_unique<sink::RocksdbSink>(options());
    sink->begin(schema());
    return sink;
  }
  [[nodiscard]] std::unique_ptr<Sink> written(std::uint64_t to) {
    auto sink = open();
    for (std::uint64_t step = 1; step <= to; ++step) sink->write(batch_of(step));
    return sink;
  }
};

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << text;
}

}  // namespace

TEST_CASE("a RocksDB whose disk fills up in a batch takes the batch once there is room",
          "[rocksdb]") {
  for (const std::int64_t room : {0, 1, 100, 1000, 2000, 2300, 3000}) {
    CAPTURE(room);
    RocksdbBench bench;
    auto sink = bench.written(3);
    bench.trouble.room = room;
    std::uint64_t step = 4;
    while (!kind_of_failure([&] { sink->write(batch_of(step)); })) ++step;
    REQUIRE(step <= 6);
    CHECK(kind_of_failure([&] { sink->write(batch_of(step)); }) == SinkError::Kind::retry);
    CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
    bench.trouble.room = INT64_MAX;
    sink->write(batch_of(step));
    sink->write(batch_of(step + 1));
    sink->flush();
    CHECK(versions_in(*sink) == versions_after(step + 1));
    sink.reset();
    sink = bench.open();
    CHECK(versions_in(*sink) == versions_after(step + 1));
    CHECK(sink->state().commits.at(0).version == Version{1, step + 1});
  }
}

TEST_CASE("a RocksDB on a disk that fills up repeatedly loses no batch", "[rocksdb]") {
  std::mt19937_64 random{seed()};
  RocksdbBench bench;
  auto sink = bench.open();
  std::uint64_t step = 1;
  for (int time = 0; time < 5; ++time) {
    bench.trouble.room = static_cast<std::int64_t>(random() % 200'000);
    const std::uint64_t last = step + 150;
    while (step < last && !kind_of_failure([&] {
             sink->write(batch_of(step));
             if (random() % 8 == 0) sink->flush();
           })) {
      ++step;
    }
    if (random() % 4 == 0) {  // the process ends while the disk is full
      sink.reset();
      bench.trouble.room = INT64_MAX;
      sink = bench.open();
    }
    bench.trouble.room = INT64_MAX;
    sink->write(batch_of(step));
    REQUIRE(versions_in(*sink) == versions_after(step));
    step = sink->state().commits.at(0).version.step + 1;
  }
}

TEST_CASE("a RocksDB whose log does not reach the disk fails the flush and has all rows later",
          "[rocksdb]") {
  RocksdbBench bench;
  auto sink = bench.written(3);
  bench.trouble.reaches = false;
  CHECK(kind_of_failure([&] { sink->flush(); }) == SinkError::Kind::retry);
  bench.trouble.reaches = true;
  sink->flush();
  sink->write(batch_of(4));
  sink->flush();
  CHECK(versions_in(*sink) == versions_after(4));
  sink.reset();
  CHECK(versions_in(*bench.open()) == versions_after(4));
}

TEST_CASE("a RocksDB on a real full disk continues once there is room", "[rocksdb]") {
  RocksdbBench bench;
  const SmallDisk disk{bench.folder, 1024};
  if (!disk.is_there()) SKIP("a small disk cannot be mounted here: that takes root");
  sink::RocksdbSink sink{{.folder = bench.folder, .write_buffer_bytes = 64 << 10}};
  sink.begin(schema());
  const std::filesystem::path ballast = bench.folder / ".ballast";
  write_text(ballast, std::string(700'000, 'x'));
  std::uint64_t step = 1;
  std::optional<SinkError::Kind> failed;
  while (step < 900 && !(failed = kind_of_failure([&] { sink.write(batch_of(step)); }))) ++step;
  CHECK(failed == SinkError::Kind::retry);
  CHECK(kind_of_failure([&] { sink.write(batch_of(step)); }) == SinkError::Kind::retry);
  std::filesystem::remove(ballast);
  sink.write(batch_of(step));
  sink.write(batch_of(step + 1));
  sink.flush();
  CHECK(versions_in(sink) == versions_after(step + 1));
}

TEST_CASE("a database that another process has open is a retry error with the reason",
          "[rocksdb]") {
  RocksdbBench bench;
  auto sink = bench.written(1);
  sink::RocksdbSink other{
      {.folder = bench.folder}};  // another environment: not the same database for us
  CHECK(kind_of_failure([&] { other.begin(schema()); }) == SinkError::Kind::retry);
  CHECK_THROWS_WITH(other.begin(schema()), ContainsSubstring("one process at a time"));
  sink.reset();
  CHECK(versions_in(other) == versions_after(1));
}

TEST_CASE("sinks of one folder in a process share the database", "[rocksdb]") {
  RocksdbBench bench;
  auto one = bench.written(1), other = bench.open();
  other->write(batch_of(2));
  one->write(batch_of(3));
  one.reset();
  CHECK(versions_in(*other) == versions_after(3));
}

TEST_CASE("a RocksDB sink refuses a folder with foreign files and leaves it unchanged",
          "[rocksdb]") {
  RocksdbBench bench;
  std::filesystem::create_directories(bench.folder);
  write_text(bench.folder / "diary.txt", "today");
  CHECK(kind_of_failure([&] { (void)bench.open(); }) == SinkError::Kind::wrong);
  CHECK(std::distance(std::filesystem::directory_iterator{bench.folder}, {}) == 1);
}

TEST_CASE("a foreign database is refused and not changed", "[rocksdb]") {
  RocksdbBench bench;
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  REQUIRE(rocksdb::DB::Open(options, bench.folder.string(), &opened).ok());
  std::unique_ptr<rocksdb::DB> theirs{opened};
  REQUIRE(theirs->Put({}, "key", "value").ok());
  theirs.reset();
  CHECK(kind_of_failure([&] { (void)bench.open(); }) == SinkError::Kind::wrong);
  CHECK_THROWS_WITH(bench.open(), ContainsSubstring("another program"));
  std::vector<std::string> families;
  REQUIRE(rocksdb::DB::ListColumnFamilies(options, bench.folder.string(), &families).ok());
  CHECK(families.size() == 1);
}

TEST_CASE("reading a database that does not exist does not create it", "[rocksdb]") {
  RocksdbBench bench;
  sink::RocksdbSink sink{{.folder = bench.folder, .write_buffer_bytes = 64 << 10}};
  CHECK(!sink.state().schema);
  CHECK(versions_in(sink).empty());
  CHECK(!std::filesystem::exists(bench.folder));
}

TEST_CASE("a damaged database is refused as wrong with a remedy", "[rocksdb]") {
  RocksdbBench bench;
  (void)bench.written(3);
  write_text(bench.folder / "CURRENT", "MANIFEST-999999\n");
  std::optional<SinkError::Kind> kind;
  std::string what;
  try {
    (void)bench.open();
  } catch (const SinkError& error) {
    kind = error.kind();
    what = error.what();
  }
  CHECK(kind == SinkError::Kind::wrong);
  CHECK_THAT(what, ContainsSubstring("empty folder"));
}

TEST_CASE("a row of a damaged table is refused when it is read", "[rocksdb]") {
  RocksdbBench bench;
  auto sink = bench.written(1);
  sink.reset();
  {
    sink::Database database{bench.options()};
    const std::unique_ptr<rocksdb::Iterator> row{database->NewIterator({}, database.rows())};
    row->SeekToFirst();
    REQUIRE(row->Valid());
    std::string value = row->value().ToString();
    value[60] = static_cast<char>(value[60] ^ 1);
    REQUIRE(database->Put({}, database.rows(), row->key(), value).ok());
  }
  sink = bench.open();
  CHECK_THROWS_AS(versions_in(*sink), RecordError);
}

TEST_CASE("keys are the table's name, a zero and the row, so that rows are in order", "[rocksdb]") {
  RocksdbBench bench;
  (void)bench.written(2);
  const sink::Database database{bench.options()};
  const std::unique_ptr<rocksdb::Iterator> row{database->NewIterator({}, database.rows())};
  std::vector<std::string> keys;
  for (row->SeekToFirst(); row->Valid(); row->Next()) keys.push_back(row->key().ToString());
  const std::string before = std::string{"t"} + std::string(8, '\0');
  CHECK(keys == std::vector<std::string>{before + '\1', before + '\2', before + '\3'});
  std::string commit;
  CHECK(database->Get({}, database.stream(), "mark/0000", &commit).ok());
  std::string json;
  CHECK(database->Get({}, database.stream(), "schema", &json).ok());
  CHECK(parse_stream_schema(json) == schema());
}

}  // namespace millrace::test
