#include "text/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::text {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 16;

class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& file)
      : descriptor_{::open(file.c_str(), O_RDONLY | O_CLOEXEC)} {
    if (descriptor_ < 0)
      throw FileProblem{std::string{"cannot be opened: "} + std::strerror(errno)};
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { ::close(descriptor_); }

  /**
   * Returns the length of a regular file; 0 for a pipe, whose length is unknown. Throws for the
   * rest.
   */
  [[nodiscard]] std::uint64_t length() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail();
    if (S_ISDIR(status.st_mode)) throw FileProblem{"is a folder, not a file"};
    if (S_ISREG(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
    if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) return 0;
    throw FileProblem{"is a device, not a file or a pipe"};
  }

  std::size_t read(char* room, std::size_t bytes) const {
    while (true) {
      const ssize_t got = ::read(descriptor_, room, bytes);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) fail();
    }
  }

 private:
  [[noreturn]] static void fail() {
    throw FileProblem{std::string{"cannot be read: "} + std::strerror(errno)};
  }

  int descriptor_;
};

[[noreturn]] void refuse_length(std::uint64_t most) {
  throw FileProblem{fmt::format("is larger than the {} bytes that are allowed", most)};
}

}  // namespace

std::string read_file(const std::filesystem::path& file, std::uint64_t most,
                      const std::function<void(std::string_view)>& beginning) {
  const OpenFile open{file};
  const std::uint64_t length = open.length();
  if (length > most) refuse_length(most);
  std::string text;
  text.reserve(length + 1);
  std::string piece(kPiece, '\0');
  // A read from a pipe may return little, so `beginning` gets a full piece, or all if there is
  // less.
  bool looked = beginning == nullptr;
  while (const std::size_t got = open.read(piece.data(), piece.size())) {
    if (got > most - text.size()) refuse_length(most);
    text.append(piece, 0, got);
    if (looked || text.size() < kPiece) continue;
    beginning(std::string_view{text}.substr(0, kPiece));
    looked = true;
  }
  if (!looked) beginning(text);
  return text;
}

}  // namespace millrace::text
