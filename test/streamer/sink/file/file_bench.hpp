#pragma once

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sink/file/file_sink.hpp"
#include "sink/file/file_source.hpp"
#include "test/streamer/sink/versions.hpp"
#include "test/support/catch.hpp"
#include "test/support/temporary_folder.hpp"

namespace millrace::test {

/// A disk with `room` bytes left and with other faults.
class FailingDisk final : public sink::Disk {
 public:
  std::size_t room = ~std::size_t{0};
  bool cuts = true;                          ///< files can be truncated
  bool reaches = true;                       ///< written data reaches the disk
  std::size_t good_syncs = ~std::size_t{0};  ///< number of calls until none succeeds any more
  bool renames = true;                       ///< files can be renamed

  ssize_t write(int file, const void* from, std::size_t bytes) override {
    if (room == 0) {
      errno = ENOSPC;
      return -1;
    }
    const ssize_t written = Disk::write(file, from, std::min(bytes, room));
    if (written > 0) room -= static_cast<std::size_t>(written);
    return written;
  }
  int fsync(int) override {
    if (good_syncs == 0) return fail();
    --good_syncs;
    return reaches ? 0 : fail();
  }
  int ftruncate(int file, off_t bytes) override {
    return cuts ? Disk::ftruncate(file, bytes) : fail();
  }
  int rename(const char* from, const char* to) override {
    return renames ? Disk::rename(from, to) : fail();
  }

 private:
  static int fail() {
    errno = EIO;
    return -1;
  }
};

inline const StreamSchema& file_schema() {
  static const StreamSchema schema{.tables = {{.name = "t", .rows = 100, .width = 3}}};
  return schema;
}

/// Step n of a rank writes rows n and n + 1 and follows step n - 1. Step 1 begins a chain.
inline StepBatch file_step(std::uint64_t step, std::uint32_t rank = 0, std::uint64_t epoch = 1) {
  StepBatch batch;
  batch.commit.version = {epoch, step};
  if (step > 1) batch.commit.after = {epoch, step - 1};
  batch.commit.rank = rank;
  batch.commit.ranks = 4;
  for (const std::uint64_t row : {step, step + 1}) {
    const float numbers[] = {static_cast<float>(row), static_cast<float>(step), 0.5F};
    batch.add(
        {.version = {epoch, step}, .row = static_cast<std::int64_t>(row), .weights = numbers});
  }
  return batch;
}

/// A folder of a file sink.
struct FileBench {
  TemporaryFolder temporary;
  std::filesystem::path folder = temporary.path() / "stream";
  FailingDisk disk;
  std::size_t segment_bytes = std::size_t{1} << 20;
  sink::Keep keep = sink::Keep::all;

  [[nodiscard]] std::unique_ptr<Sink> open() {
    auto sink = std::make_unique<sink::FileSink>(sink::FileOptions{
        .folder = folder, .segment_bytes = segment_bytes, .keep = keep, .disk = &disk});
    sink->begin(file_schema());
    return sink;
  }
  /// Opens the sink and writes steps `from` to `to`.
  std::unique_ptr<Sink> written(std::uint64_t to, std::uint64_t from = 1) {
    auto sink = open();
    for (std::uint64_t step = from; step <= to; ++step) sink->write(file_step(step));
    return sink;
  }
  [[nodiscard]] std::vector<std::filesystem::path> segments() const {
    std::vector<std::filesystem::path> paths;
    for (const auto& [rank, names] : sink::segments_in(folder)) {
      for (const auto& name : names) paths.push_back(folder / to_string(name));
    }
    return paths;
  }
  /// The steps that a source reads.
  [[nodiscard]] std::vector<std::uint64_t> steps_read() const {
    sink::FileSource source{folder};
    std::vector<std::uint64_t> steps;
    while (const auto next = source.next(std::chrono::nanoseconds{0})) {
      steps.push_back(next->batch.commit.version.step);
    }
    return steps;
  }
};

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream stream{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}
inline void replace(const std::filesystem::path& path, const std::string& contents) {
  std::ofstream{path, std::ios::binary | std::ios::trunc} << contents;
}

inline std::vector<std::uint64_t> steps_up_to(std::uint64_t last) {
  std::vector<std::uint64_t> steps;
  for (std::uint64_t step = 1; step <= last; ++step) steps.push_back(step);
  return steps;
}

}  // namespace millrace::test
