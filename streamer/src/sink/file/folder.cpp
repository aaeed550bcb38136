#include "sink/file/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>

#include "millrace/streamer/record.hpp"
#include "millrace/streamer/sink.hpp"
#include "millrace/text/parse_number.hpp"

namespace millrace::sink {
namespace {

constexpr std::string_view kSchema = "schema.json", kRequest = "snapshot-wanted", kLock = ".lock";

/**
 * Returns the name of a file that no stream wrote; "" if there is none. Ignores hidden files and
 * files of the file system itself.
 */
std::string somebodys(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name == "lost+found" || name == kSchema) continue;
    if (name == kRequest || (name.starts_with("rank-") && name.ends_with(kLock)))
      continue;  // remains of a stream that was removed
    return name;
  }
  return {};
}

/** A temporary file, which is removed with the object. The caller gives it its name. */
class Unfinished {
 public:
  Unfinished(const std::filesystem::path& folder, std::string_view text) {
    // A new file in any case: a leftover of that name may be a second name of the schema, which
    // a process had linked when it was killed. Another machine may have a process of this number.
    std::random_device random;
    path_ = folder / fmt::format(".unfinished-{:08x}{:08x}", random(), random());
    file_ = open_file(path_, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    try {
      write(text);
    } catch (const SinkError&) {
      ::unlink(path_.c_str());
      throw;
    }
  }
  ~Unfinished() { ::unlink(path_.c_str()); }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  [[nodiscard]] const char* path() const noexcept { return path_.c_str(); }

 private:
  void write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t written = ::write(file_.get(), text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) throw_system_error(written < 0 ? errno : EIO, path_.string());
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::fsync(file_.get()) != 0) throw_system_error(errno, path_.string());
  }

  std::filesystem::path path_;
  File file_;
};

}  // namespace

std::filesystem::path folder_of(std::string_view spec, std::string_view prefix) {
  const std::string_view folder = spec.substr(prefix.size());
  if (folder.empty()) {
    throw std::invalid_argument(fmt::format("'{}' names no folder (expected {}DIR)", spec, prefix));
  }
  const std::filesystem::path parent = std::filesystem::path{folder} / "..";
  std::error_code error;
  const std::filesystem::path above = parent.lexically_normal();
  if (!std::filesystem::is_directory(above.empty() ? "." : above, error)) {
    throw std::invalid_argument(
        fmt::format("'{}': the folder above it, {}, does not exist (expected a new folder in one "
                    "that exists)",
                    spec, above.string()));
  }
  return folder;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directory(folder, error);
  if (error) throw_system_error(error.value(), folder.string());
  // Whatever is flushed in the folder survives the machine only if the folder's name does. It is
  // synced although another rank made the folder, which may not have synced it yet. A folder above
  // it that this program must not read, or a file system that syncs no folders, is no error.
  const std::filesystem::path above = (folder / "..").lexically_normal();
  const int opened =
      ::open(above.empty() ? "." : above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  const int failed = ::fsync(opened) == 0 ? 0 : errno;
  ::close(opened);
  if (failed == EIO) throw_system_error(failed, above.string());
}

std::optional<StreamSchema> read_schema(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSchema;
  const File file = open_to_read(path);
  if (!file) return std::nullopt;
  const std::uint64_t size = size_of(file, path);
  try {
    if (size > kLargestRecord)
      throw RecordError{
          fmt::format("the schema has {} bytes (expected at most {})", size, kLargestRecord)};
    std::string json(size, '\0');
    json.resize(read_at(file, 0, std::as_writable_bytes(std::span{json}), path));
    return parse_stream_schema(json);
  } catch (const RecordError& error) {
    throw SinkError{SinkError::Kind::wrong, fmt::format("{}: {}", path.string(), error.what())};
  }
}

StreamSchema create_schema(const std::filesystem::path& folder, const StreamSchema& schema) {
  if (const auto there = read_schema(folder)) return *there;
  const std::filesystem::path path = folder / kSchema;
  std::string other;
  make_folder(folder);
  try {
    other = somebodys(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw_system_error(error.code().value(), folder.string());
  }
  if (!other.empty()) {  // another rank may have written its schema meanwhile
    if (const auto there = read_schema(folder)) return *there;
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}: it contains '{}', but no {} (expected an empty folder, or one "
                                "that a stream was written to)",
                                folder.string(), other, kSchema)};
  }
  const Unfinished unfinished{folder, to_json(schema) + "\n"};
  // link() refuses an existing name, unlike rename(): if several ranks begin at once, one schema
  // wins.
  const bool is_first = ::link(unfinished.path(), path.c_str()) == 0;
  if (!is_first && errno != EEXIST) throw_system_error(errno, path.string());
  const File opened = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (::fsync(opened.get()) != 0) throw_system_error(errno, folder.string());
  return is_first ? schema : read_schema(folder).value_or(schema);
}

std::uint64_t snapshot_request_in(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kRequest;
  const File file = open_to_read(path);
  if (!file) return 0;
  char found[24];
  const std::size_t bytes = read_at(file, 0, std::as_writable_bytes(std::span{found}), path);
  std::string_view rest{found, bytes};
  const auto number = text::take_number<std::uint64_t>(rest);
  if (!number || !(rest.empty() || rest.starts_with('\n'))) {
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}: its contents are not a number", path.string())};
  }
  return *number;
}

void request_snapshot(const std::filesystem::path& folder) {
  using std::chrono::milliseconds;
  const auto now =
      std::chrono::duration_cast<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  auto number = static_cast<std::uint64_t>(now.count());
  try {
    const std::uint64_t before = snapshot_request_in(folder);
    // A request must differ from the one before it, even within a millisecond.
    if (before == number) ++number;
  } catch (const SinkError&) {
    // The file is not a request; this one replaces it.
  }
  const Unfinished unfinished{folder, fmt::format("{}\n", number)};
  if (::rename(unfinished.path(), (folder / kRequest).c_str()) != 0) {
    throw_system_error(errno, folder.string());
  }
}

}  // namespace millrace::sink
