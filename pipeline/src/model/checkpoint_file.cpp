#include "model/checkpoint_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "millrace/pipeline/model/checkpoint.hpp"

namespace millrace::model {
namespace {

std::filesystem::path behind_links(const std::filesystem::path& file) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(file, error);
  return error ? file : real;
}

[[noreturn]] void refuse_place(const std::filesystem::path& file, const std::string& reason) {
  throw CheckpointError{fmt::format("the checkpoint can not be written: {}", reason), file.string(),
                        "a file in a folder that is there and may be written to"};
}

int create_beside(const std::filesystem::path& file, std::string& name) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) refuse_place(file, "it is a folder");
  const int descriptor = ::mkstemp(name.data());
  if (descriptor < 0) refuse_place(file, std::strerror(errno));
  return descriptor;
}

mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// A name is on the disk when its folder is.
bool sync_folder(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;
  ::close(descriptor);
  return synced;
}

}  // namespace

UnfinishedFile::UnfinishedFile(std::filesystem::path file)
    : file_(behind_links(file)),
      name_(file_.string() + ".XXXXXX"),
      descriptor_(create_beside(file_, name_)) {}

UnfinishedFile::~UnfinishedFile() {
  ::close(descriptor_);
  if (!finished_) ::unlink(name_.c_str());
}

void UnfinishedFile::refuse() const { refuse_place(file_, std::strerror(errno)); }

void UnfinishedFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) refuse();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void UnfinishedFile::write(std::uint64_t number) {
  std::array<std::byte, sizeof number> bytes;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(number & 0xFFU);
    number >>= 8U;
  }
  write(bytes);
}

void UnfinishedFile::finish() {
  const bool complete = ::fchmod(descriptor_, usual_mode()) == 0 && ::fsync(descriptor_) == 0;
  if (!complete || ::rename(name_.c_str(), file_.c_str()) != 0) refuse();
  finished_ = true;
  if (!sync_folder(file_)) refuse();
}

InputFile::InputFile(const std::filesystem::path& file)
    : file_(file), descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  const bool opened = descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0;
  if (opened && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  const std::string reason = opened ? "it is not a regular file" : std::strerror(errno);
  if (descriptor_ >= 0) ::close(descriptor_);
  throw CheckpointError{fmt::format("the checkpoint can not be read: {}", reason), file.string(),
                        "a file that --save has written"};
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::span<std::byte> room) {
  while (!room.empty()) {
    const ssize_t got = ::read(descriptor_, room.data(), room.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw CheckpointError{
          fmt::format("the checkpoint can not be read: {}",
                      got == 0 ? "it became shorter meanwhile" : std::strerror(errno)),
          file_.string(), "a file that nobody writes to"};
    }
    room = room.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t InputFile::read_number() {
  std::array<std::byte, sizeof(std::uint64_t)> bytes{};
  read(bytes);
  std::uint64_t number = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    number = number << 8U | static_cast<std::uint64_t>(bytes[i]);
  }
  return number;
}

void InputFile::seek(std::uint64_t position) {
  if (::lseek(descriptor_, static_cast<off_t>(position), SEEK_SET) < 0) {
    throw CheckpointError{fmt::format("the checkpoint can not be read: {}", std::strerror(errno)),
                          file_.string(), "a regular file"};
  }
}

}  // namespace millrace::model
