#include "cli/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <utility>

#include "cli/error.hpp"

namespace millrace::cli {
namespace {

bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

mode_t usual_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

/** A device or a pipe: nothing that could be replaced. */
bool is_special(const std::filesystem::path& file) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

/** A file beside the one that it is to become. Gone with the object if it did not. */
class Unfinished {
 public:
  explicit Unfinished(const std::filesystem::path& file)
      : file_(file), name_(file.string() + ".XXXXXX"), descriptor_(::mkstemp(name_.data())) {}
  ~Unfinished() {
    if (!made()) return;
    ::close(descriptor_);
    if (!finished_) ::unlink(name_.c_str());
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  [[nodiscard]] bool made() const noexcept { return descriptor_ >= 0; }
  /** Where it fails, `errno` says why. */
  [[nodiscard]] bool finish(std::string_view text) {
    finished_ = made() && write_all(descriptor_, text) &&
                ::fchmod(descriptor_, usual_mode()) == 0 && ::fsync(descriptor_) == 0 &&
                ::rename(name_.c_str(), file_.c_str()) == 0;
    return finished_;
  }

 private:
  const std::filesystem::path file_;
  std::string name_;
  const int descriptor_;
  bool finished_ = false;
};

}  // namespace

bool colours_on_stdout() {
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  if (refused != nullptr && *refused != '\0') return false;
  if (terminal != nullptr && std::string_view{terminal} == "dumb") return false;
  return ::isatty(STDOUT_FILENO) == 1;
}

Output::Output(const std::optional<std::string>& file, std::string option)
    : option_(std::move(option)) {
  if (!file || *file == "-") return;
  const auto fail = [&](const std::string& reason) {
    file_ = *file;
    refuse(reason);
  };
  std::error_code error;
  file_ = std::filesystem::canonical(*file, error);  // behind a link: what it leads to is replaced
  if (error) file_ = *file;
  const auto status = std::filesystem::status(file_, error);
  if (std::filesystem::is_directory(status)) fail("it is a folder");
  if (file_.empty()) fail("it has no name");
  if (std::filesystem::exists(status) && ::access(file_.c_str(), W_OK) != 0) {
    fail(std::strerror(errno));
  }
  if (!is_special(file_) && !Unfinished{file_}.made()) refuse(std::strerror(errno));
}

bool Output::same_as(const Output& other) const {
  std::error_code error;
  return file_ == other.file_ || (!to_stdout() && !other.to_stdout() &&
                                  std::filesystem::weakly_canonical(file_, error) ==
                                      std::filesystem::weakly_canonical(other.file_, error));
}

void Output::refuse(const std::string& reason) const {
  throw UsageError{fmt::format("'{}' can not be written: {}", file_.string(), reason), option_,
                   "a file in a folder that is there and may be written to"};
}

void Output::write(std::string_view text) const {
  if (to_stdout()) {
    std::fflush(stdout);
    if (!write_all(STDOUT_FILENO, text)) {
      throw UsageError{fmt::format("standard output: {}", std::strerror(errno))};
    }
  } else if (is_special(file_)) {
    const int descriptor = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC);
    const bool written = descriptor >= 0 && write_all(descriptor, text);
    if (descriptor >= 0) ::close(descriptor);
    if (!written) refuse(std::strerror(errno));
  } else if (!Unfinished{file_}.finish(text)) {
    refuse(std::strerror(errno));
  }
}

}  // namespace millrace::cli
