// A RocksDB whose folder, or one of its files, is removed while it is written to.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "sink/rocksdb/rocksdb_sink.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/support/catch.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {
namespace {

using sink::RocksdbSink;

struct Begun {
  Begun() {
    rows.begin(four_wide_schema());
    rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
    rows.flush();
  }

  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path() / "rows";
  RocksdbSink rows{{.folder = folder}};
};

}  // namespace

TEST_CASE("a RocksDB whose folder is removed reports lost and is filled again", "[rocksdb]") {
  Begun begun;
  const auto how = GENERATE(0, 1, 2);
  CAPTURE(how);
  if (how == 0) std::filesystem::remove_all(begun.folder);
  if (how == 1) std::filesystem::rename(begun.folder, begun.temporary.path() / "elsewhere");
  if (how == 2) {
    std::filesystem::remove_all(begun.folder);
    RocksdbSink other{{.folder = begun.folder}};  // it shares this process's database
    CHECK(!other.state().schema);
  }
  const auto refusal = refusal_of([&] {
    begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 5, 15, 2));
  });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::lost);
  begun.rows.write(batch_of_rows({1, 2}, {}, 0, 20, 2));
  begun.rows.write(batch_of_rows({1, 3}, {1, 2}, 5, 6, 3));
  begun.rows.flush();
  begun.rows.audit(0, 1);
  CHECK(values_in(begun.rows).size() == 20);
  CHECK(begun.rows.state().schema == four_wide_schema());
  CHECK(std::filesystem::exists(begun.folder / "CURRENT"));
}

TEST_CASE("a RocksDB whose files are being removed is a retry error at first", "[rocksdb]") {
  Begun begun;
  const std::string first = GENERATE("LOCK", "all but CURRENT");
  CAPTURE(first);
  for (const auto& entry : std::filesystem::directory_iterator{begun.folder}) {
    const std::string name = entry.path().filename();
    const bool goes =
        first == "LOCK" ? name == "LOCK" || name.starts_with("MANIFEST") : name != "CURRENT";
    if (goes) std::filesystem::remove(entry.path());
  }
  for (int i = 0; i < 3; ++i) {
    const auto write = refusal_of([&] {
      begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 5, 15, 2));
    });
    REQUIRE(write);
    CHECK(write->kind == SinkError::Kind::retry);
    const auto look = refusal_of([&] { (void)begun.rows.state(); });
    REQUIRE(look);
    CHECK(look->kind == SinkError::Kind::retry);
  }
  SECTION("a removed folder is lost and filled again") {
    std::filesystem::remove_all(begun.folder);
    const auto lost = refusal_of([&] {
      begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 5, 15, 2));
    });
    REQUIRE(lost);
    CHECK(lost->kind == SinkError::Kind::lost);
    begun.rows.write(batch_of_rows({1, 2}, {}, 0, 20, 2));
    CHECK(values_in(begun.rows).size() == 20);
  }
  SECTION("a folder that stays incomplete is damaged") {
    std::optional<SinkError::Kind> kind;
    for (int i = 0; i < 20 && kind != SinkError::Kind::wrong; ++i) {
      kind = refusal_of([&] { begun.rows.write(batch_of_rows({1, 2}, {1, 1}, 5, 15, 2)); })->kind;
    }
    CHECK(kind == SinkError::Kind::wrong);
  }
}

TEST_CASE("the next write finds that a RocksDB was removed while it was opened", "[rocksdb]") {
  struct Thief : rocksdb::EnvWrapper {
    Thief() : EnvWrapper(rocksdb::Env::Default()) {}
    rocksdb::Status LockFile(const std::string& file, rocksdb::FileLock** lock) override {
      const rocksdb::Status status = EnvWrapper::LockFile(file, lock);
      if (std::exchange(steals, false)) std::filesystem::remove(file);
      return status;
    }
    bool steals = true;
  } thief;
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path() / "rows";
  RocksdbSink rows{{.folder = folder, .env = &thief}};
  rows.begin(four_wide_schema());
  std::filesystem::remove_all(folder);
  const auto refusal = refusal_of([&] { rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1)); });
  CHECK((!refusal || refusal->kind == SinkError::Kind::retry));
  rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  CHECK(std::filesystem::exists(folder / "CURRENT"));
  CHECK(values_in(rows).size() == 10);
}

TEST_CASE("a flush finds that a RocksDB was removed after the last write", "[rocksdb]") {
  Begun begun;
  std::filesystem::remove_all(begun.folder);
  const auto refusal = refusal_of([&] { begun.rows.flush(); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::retry);
  CHECK(begun.rows.state().commits.empty());
  begun.rows.flush();
}

TEST_CASE("an audit reports a RocksDB with a removed file of rows as damaged", "[rocksdb]") {
  TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path() / "rows";
  const sink::RocksdbOptions options{.folder = folder, .write_buffer_bytes = 64 << 10};
  const auto has_table = [&] {
    return std::ranges::any_of(std::filesystem::directory_iterator{folder}, [](const auto& entry) {
      return entry.path().extension() == ".sst";
    });
  };
  {
    RocksdbSink rows{options};
    rows.begin(four_wide_schema());
    for (std::uint64_t step = 1; !has_table(); ++step) {
      REQUIRE(step < 1000);
      rows.write(
          batch_of_rows({1, step}, step == 1 ? Version{} : Version{1, step - 1}, 0, 1000, 1));
    }
    rows.flush();
  }
  // After it is opened again, none of its threads is still writing a table.
  RocksdbSink rows{options};
  rows.begin(four_wide_schema());
  rows.audit(0, 1);
  REQUIRE(has_table());
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    if (entry.path().extension() == ".sst") std::filesystem::remove(entry.path());
  }
  const auto refusal = refusal_of([&] { rows.audit(0, 1); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::wrong);
}

TEST_CASE("a value that is not a row is replaced in a RocksDB, whatever its bytes", "[rocksdb]") {
  TemporaryFolder temporary;
  const sink::RocksdbOptions options{.folder = temporary.path() / "rows"};
  std::string key;
  {
    RocksdbSink rows{options};
    rows.begin(four_wide_schema());
    rows.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  }
  {
    const sink::Database database{options};
    const std::unique_ptr<rocksdb::Iterator> row{database->NewIterator({}, database.rows())};
    row->SeekToFirst();
    REQUIRE(row->Valid());
    REQUIRE(database->Put({}, database.rows(), row->key(), std::string(72, '\xff')).ok());
  }
  RocksdbSink rows{options};
  rows.write(batch_of_rows({1, 2}, {1, 1}, 0, 10, 2));
  CHECK(values_in(rows).at(0) == 2);
}

TEST_CASE("a sink whose parent folder does not exist is refused, and no folder is created",
          "[rocksdb]") {
  const TemporaryFolder temporary;
  for (const char* const kind : {"rocksdb:", "file:"}) {
    const std::filesystem::path folder = temporary.path() / "none" / "rows";
    CHECK_THROWS_WITH(open_sink(kind + folder.string()),
                      Catch::Matchers::ContainsSubstring("does not exist"));
    CHECK_NOTHROW(open_sink(kind + (temporary.path() / "rows").string()));
    CHECK_NOTHROW(open_sink(kind + (temporary.path() / "rows/").string()));
    CHECK_NOTHROW(open_sink(std::string{kind} + "rows"));
  }
  CHECK(!std::filesystem::exists(temporary.path() / "none"));
}

TEST_CASE("a rank whose commits are gone hears of it, though another rank flushed", "[rocksdb]") {
  Begun begun;
  StepBatch of_rank_1 = batch_of_rows({1, 1}, {}, 10, 20, 1);
  of_rank_1.commit.rank = 1;
  begun.rows.write(of_rank_1);
  std::filesystem::remove_all(begun.folder);
  // Rank 0 flushes until it succeeds.
  REQUIRE(kind_of_failure([&] { begun.rows.flush(); }) == SinkError::Kind::retry);
  begun.rows.flush();
  CHECK(kind_of_failure([&] { begun.rows.audit(1, 1); }) == SinkError::Kind::lost);
  CHECK_NOTHROW(begun.rows.audit(1, 1));                  // told once
  begun.rows.write(batch_of_rows({1, 2}, {}, 0, 10, 1));  // rank 0 has begun its snapshot
  CHECK_NOTHROW(begun.rows.audit(0, 1));
}

}  // namespace millrace::test
