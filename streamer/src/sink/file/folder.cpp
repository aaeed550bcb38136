#include "sink/file/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include "millrace/streamer/record.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace::sink {
namespace {

constexpr std::string_view kSchema = "schema.json";

std::filesystem::path request_of(const std::filesystem::path& folder, std::uint32_t rank) {
  return folder / fmt::format("rank-{:04}.snapshot-wanted", rank);
}

/** What a file system puts there itself, and what is hidden, is nobody's. */
void check_nobodys(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || name == "lost+found" || name == kSchema) continue;
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("{}: there is '{}' in it, and no {}: this is no folder of a stream",
                                folder.string(), name, kSchema)};
  }
}

void write_whole(const std::filesystem::path& path, std::string_view text) {
  const File file = open_file(path, O_WRONLY | O_CREAT | O_TRUNC);
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_system_error(written < 0 ? errno : EIO, path.string());
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  if (::fsync(file.get()) != 0) throw_system_error(errno, path.string());
}

}  // namespace

std::filesystem::path folder_of(std::string_view spec, std::string_view prefix) {
  const std::string_view folder = spec.substr(prefix.size());
  if (folder.empty()) {
    throw std::invalid_argument(fmt::format("'{}' names no folder; {}DIR would", spec, prefix));
  }
  return folder;
}

std::optional<StreamSchema> read_schema(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSchema;
  const File file = open_to_read(path);
  if (!file) return std::nullopt;
  const std::uint64_t size = size_of(file, path);
  try {
    if (size > kLargestRecord) throw RecordError{fmt::format("a schema of {} bytes", size)};
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
  static std::atomic<unsigned> count{0};  // sinks of one process may begin at once
  const std::filesystem::path unfinished =
      folder / fmt::format(".schema-{}-{}", ::getpid(), count.fetch_add(1));
  try {
    std::filesystem::create_directories(folder);
    check_nobodys(folder);
  } catch (const std::filesystem::filesystem_error& error) {
    throw_system_error(error.code().value(), folder.string());
  }
  write_whole(unfinished, to_json(schema) + "\n");
  const int linked = ::link(unfinished.c_str(), path.c_str());
  const int error = errno;
  ::unlink(unfinished.c_str());
  if (linked != 0 && error != EEXIST) throw_system_error(error, path.string());
  const File opened = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (::fsync(opened.get()) != 0) throw_system_error(errno, folder.string());
  return linked == 0 ? schema : read_schema(folder).value_or(schema);
}

void request_snapshot(const std::filesystem::path& folder, std::uint32_t rank) {
  (void)open_file(request_of(folder, rank), O_WRONLY | O_CREAT);
}

bool take_request(const std::filesystem::path& folder, std::uint32_t rank) {
  if (::unlink(request_of(folder, rank).c_str()) == 0) return true;
  if (errno != ENOENT) throw_system_error(errno, request_of(folder, rank).string());
  return false;
}

}  // namespace millrace::sink
