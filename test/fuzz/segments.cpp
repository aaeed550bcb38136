// A segment of the file sink with any bytes. A reader must get whole batches of possible rows, or
// an error. A writer that continues after it must refuse, or its batches must be readable. Each
// input is also tried with correct checksums, so that the code after the test of the checksum is
// reached.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "sink/file/file_sink.hpp"
#include "sink/file/file_source.hpp"
#include "test/fuzz/support/records.hpp"

using namespace millrace;
using namespace millrace::fuzz;

namespace {

constexpr Version kNewest{~0ULL, ~0ULL};  ///< version of the last batch that is appended

/// A disk without waits.
class FastDisk final : public sink::Disk {
 public:
  int fsync(int) override { return 0; }
};

class Folder {
 public:
  Folder() {
    const auto base = std::filesystem::temp_directory_path();
    path_ = base / ("millrace-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(path_);
    sink::FileSink{{.folder = path_}}.begin(schema);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  /// Writes a folder with this as its only segment.
  const std::filesystem::path& with(const std::vector<std::byte>& bytes, bool compacted) {
    for (const auto& [rank, names] : sink::segments_in(path_)) {
      for (const auto& name : names) std::filesystem::remove(path_ / to_string(name));
    }
    const sink::SegmentName name{.rank = 0, .number = 1, .epoch = 1, .compacted = compacted};
    std::ofstream{path_ / to_string(name), std::ios::binary}.write(
        reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return path_;
  }

  const StreamSchema schema{
      .content = RowContent::weights_and_state,
      .tables = {{.name = "table.user", .rows = 1000, .width = 3, .state = 1},
                 {.name = "table.item", .rows = std::uint64_t{1} << 40, .width = 2, .state = 2}}};

 private:
  std::filesystem::path path_;
};

/// Returns the version of the last batch of a source, or nothing if the source fails.
std::optional<Version> follow(const std::filesystem::path& folder, const StreamSchema& schema) {
  sink::FileSource source{folder};
  Version last;
  try {
    while (const auto next = source.next(std::chrono::nanoseconds{0})) {
      require(next->batch.commit.rows == next->batch.size(), "commits count their rows");
      for (std::size_t i = 0; i < next->batch.size(); ++i) {
        check_row(next->batch.row(i), schema);
      }
      sink::FileSource again{folder};
      again.seek(next->position);
      last = next->batch.commit.version;
    }
    return last;
  } catch (const RecordError&) {
  }
  return std::nullopt;
}

void read(Sink& sink, const StreamSchema& schema) {
  try {
    sink.read([&](const RowRecord& row) { check_row(row, schema); });
  } catch (const RecordError&) {
  }
}

void try_segment(Folder& folder, const std::vector<std::byte>& bytes, bool compacted = false) {
  const std::filesystem::path& path = folder.with(bytes, compacted);
  const bool is_followed = follow(path, folder.schema).has_value();
  static FastDisk disk;
  sink::FileSink sink{{.folder = path, .segment_bytes = 1, .disk = &disk}};
  read(sink, folder.schema);
  try {
    (void)sink.state();
    for (std::uint64_t left = 8; left-- > 0;) {  // the sink compacts meanwhile
      StepBatch batch;
      batch.commit.version = {kNewest.epoch, kNewest.step - left};
      sink.write(batch);
    }
  } catch (const SinkError&) {
    return;
  }
  const auto last = follow(path, folder.schema);
  require(!is_followed || last == kNewest, "what can be read can be gone on behind");
  read(sink, folder.schema);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Folder folder;
  const auto* const begin = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(begin, begin + size);
  try_segment(folder, bytes);
  mend(bytes);
  try_segment(folder, bytes);
  try_segment(folder, bytes, true);
  return 0;
}
