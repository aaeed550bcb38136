#include "sink/file/disk.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "millrace/streamer/sink.hpp"

namespace millrace::sink {

ssize_t Disk::write(int file, const void* from, std::size_t bytes) {
  return ::write(file, from, bytes);
}
int Disk::fsync(int file) { return ::fsync(file); }
int Disk::ftruncate(int file, off_t bytes) { return ::ftruncate(file, bytes); }
int Disk::rename(const char* from, const char* to) { return ::rename(from, to); }
int Disk::unlink(const char* path) { return ::unlink(path); }

Disk& Disk::system() {
  static Disk disk;
  return disk;
}

void File::close() noexcept {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void throw_system_error(int error, const std::string& what) {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case ENOTSUP:
      // Repeating the call does not help.
      throw SinkError{SinkError::Kind::wrong, what + ": " + std::generic_category().message(error)};
    default:
      throw SinkError{SinkError::Kind::retry, what + ": " + std::generic_category().message(error)};
  }
}

File open_file(const std::filesystem::path& path, int flags) {
  for (;;) {
    const int file = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    if (file >= 0) return File{file};
    if (errno != EINTR) throw_system_error(errno, path.string());
  }
}

File open_to_read(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && errno != ENOENT) throw_system_error(errno, path.string());
  return File{file};
}

std::size_t read_at(const File& file, std::uint64_t offset, std::span<std::byte> into,
                    const std::filesystem::path& path) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t read = ::pread(file.get(), into.data() + done, into.size() - done,
                                 static_cast<off_t>(offset + done));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) throw_system_error(errno, path.string());
    if (read == 0) break;
    done += static_cast<std::size_t>(read);
  }
  return done;
}

bool is_at(const File& file, const std::filesystem::path& path) {
  struct stat open {
  }, there{};
  if (::fstat(file.get(), &open) != 0) throw_system_error(errno, path.string());
  if (::stat(path.c_str(), &there) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw_system_error(errno, path.string());
  }
  // The name may have been removed, or may belong to another file now.
  return open.st_dev == there.st_dev && open.st_ino == there.st_ino;
}

void write_all(Disk& disk, const File& file, std::span<const std::byte> bytes,
               const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = disk.write(file.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw_system_error(written < 0 ? errno : EIO, path.string());
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void flush_folder(Disk& disk, const std::filesystem::path& folder) {
  const File opened = open_file(folder, O_RDONLY | O_DIRECTORY);
  if (disk.fsync(opened.get()) != 0) throw_system_error(errno, folder.string());
}

std::uint64_t size_of(const File& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error(errno, path.string());
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace millrace::sink
