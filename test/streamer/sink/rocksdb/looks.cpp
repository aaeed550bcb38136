// Readers of a RocksDB that another process writes to, or that they may not write to.
#include <rocksdb/env.h>

#include "sink/rocksdb/rocksdb_sink.hpp"
#include "test/streamer/sink/batch_of_rows.hpp"
#include "test/support/catch.hpp"
#include "test/support/scratch_folder.hpp"

namespace millrace::test {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Another environment, which for Millrace is another process.
class Elsewhere final : public rocksdb::EnvWrapper {
 public:
  Elsewhere() : EnvWrapper(rocksdb::Env::Default()) {}
};

/// A trainer that has the database open, and a reader in another environment.
struct Looked {
  ScratchFolder scratch;
  std::filesystem::path folder = scratch / "rows";
  sink::RocksdbSink writer{{.folder = folder, .write_buffer_bytes = 64 << 10}};
  Elsewhere elsewhere;
  sink::RocksdbSink reader{{.folder = folder, .env = &elsewhere}};
};

}  // namespace

TEST_CASE("a reader sees the last commit of a database that is open for writing", "[rocksdb]") {
  Looked looked;
  CHECK(!looked.reader.state().schema);
  looked.writer.begin(four_wide_schema());
  for (std::uint64_t step = 1; step < 30; ++step) {  // files are created and removed meanwhile
    looked.writer.write(batch_of_rows({1, step}, {step > 1 ? 1ULL : 0, step - 1}, 0, 500,
                                      static_cast<float>(step)));
    const SinkState seen = looked.reader.state();
    REQUIRE(seen.schema == four_wide_schema());
    REQUIRE(seen.commits.at(0).version == Version{1, step});
    if (step % 10 != 0) continue;
    const auto values = values_in(looked.reader);
    REQUIRE(values.size() == 500);
    for (const auto& [row, value] : values) REQUIRE(value == static_cast<float>(step));
  }
  looked.writer.flush();
}

TEST_CASE("reading a database does not change its folder", "[rocksdb]") {
  Looked looked;
  looked.writer.begin(four_wide_schema());
  looked.writer.write(batch_of_rows({1, 1}, {}, 0, 10, 1));
  const auto files = [&] {
    std::map<std::string, std::filesystem::file_time_type> files;
    for (const auto& entry : std::filesystem::directory_iterator{looked.folder}) {
      files[entry.path().filename()] = entry.last_write_time();
    }
    return files;
  };
  const auto before = files();
  CHECK(values_in(looked.reader).size() == 10);
  CHECK(files() == before);
}

TEST_CASE("a folder without write permission is refused as wrong with the right reason",
          "[rocksdb]") {
  const rocksdb::Status status =
      rocksdb::Status::IOError("While open a file for lock: rows/LOCK", "Permission denied");
  const auto refusal = refusal_of([&] { sink::check(status, "rocksdb:rows"); });
  REQUIRE(refusal);
  CHECK(refusal->kind == SinkError::Kind::wrong);
  CHECK_THAT(refusal->what, !ContainsSubstring("another program"));
  CHECK_THAT(refusal->what, ContainsSubstring("this user may"));
}

}  // namespace millrace::test
