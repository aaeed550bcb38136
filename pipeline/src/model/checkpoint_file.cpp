#include "model/checkpoint_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "millrace/pipeline/model/checkpoint.hpp"

namespace millrace::model {
namespace {

/** Runs `call`, and turns WholeFileError into CheckpointError. */
template <typename Call>
void writing(const std::filesystem::path& file, Call call) {
  try {
    call();
  } catch (const WholeFileError& error) {
    throw CheckpointError{fmt::format("the checkpoint cannot be written: {}", error.what()),
                          file.string(), "a file in a folder that is there and may be written to"};
  }
}

}  // namespace

UnfinishedFile::UnfinishedFile(std::filesystem::path file) : file_(std::move(file)) {
  writing(file_, [&] { whole_.emplace(file_); });
}

void UnfinishedFile::write(std::span<const std::byte> bytes) {
  writing(file_, [&] { whole_->write(bytes); });
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
  writing(file_, [&] { whole_->finish(); });
}

void UnfinishedFile::check(const std::filesystem::path& file) {
  writing(file, [&] { check_whole_file(file); });
}

InputFile::InputFile(const std::filesystem::path& file)
    : file_(file), descriptor_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  const bool opened = descriptor_ >= 0 && ::fstat(descriptor_, &status) == 0;
  // The file is read twice and by position, which a pipe does not allow.
  if (opened && S_ISREG(status.st_mode)) {
    size_ = static_cast<std::uint64_t>(status.st_size);
    return;
  }
  const std::string reason = opened ? "it is not a regular file" : std::strerror(errno);
  if (descriptor_ >= 0) ::close(descriptor_);
  throw CheckpointError{fmt::format("the checkpoint cannot be read: {}", reason), file.string(),
                        "a file that --save has written"};
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::span<std::byte> room) {
  read_at(position_, room);
  position_ += room.size();
}

void InputFile::read_at(std::uint64_t position, std::span<std::byte> room) const {
  while (!room.empty()) {
    const ssize_t got =
        ::pread(descriptor_, room.data(), room.size(), static_cast<off_t>(position));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      throw CheckpointError{
          fmt::format("the checkpoint cannot be read: {}",
                      got == 0 ? "it became shorter while it was read" : std::strerror(errno)),
          file_.string(), "a file that no other program writes to"};
    }
    room = room.subspan(static_cast<std::size_t>(got));
    position += static_cast<std::uint64_t>(got);
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

}  // namespace millrace::model
