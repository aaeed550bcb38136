#include "millrace/pipeline/data/whole_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace millrace {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kMode = 0666;         // the process's umask applies
constexpr unsigned kMostLinks = 40;    // the limit of the kernel
constexpr std::size_t kLongest = 230;  // bytes of a name, so that the hidden name has room for more

[[noreturn]] void fail() { throw WholeFileError{std::strerror(errno)}; }

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const noexcept { return number_; }

 private:
  const int number_;
};

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path{"."};
}

/**
 * Allows one writer at a time, if the file system supports locks. The lock ends with the
 * descriptor.
 */
void lock(int descriptor) {
  while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR) {
  }
}

bool same_file(int descriptor, const fs::path& name) {
  struct stat opened {
  }, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(name.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::string path_of(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

bool sync(int descriptor) { return ::fsync(descriptor) == 0 || errno == EINVAL; }

/**
 * Returns whether the file is a device or a pipe. @throws WholeFileError if no file can be written
 * there
 */
bool check_kind(const fs::path& file) {
  struct stat status {};
  const bool exists = ::stat(file.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) throw WholeFileError{"it is a folder"};
  if (!file.has_filename()) throw WholeFileError{"it has no name"};
  if (exists && ::access(file.c_str(), W_OK) != 0) fail();
  return exists && !S_ISREG(status.st_mode);
}

}  // namespace

fs::path without_links(const fs::path& path) {
  std::error_code error;
  fs::path file = fs::absolute(path, error);
  for (unsigned i = 0; i < kMostLinks && fs::is_symlink(file, error); ++i) {
    const fs::path target = fs::read_symlink(file, error);
    if (error) break;
    file = folder_of(file) / target;  // an absolute target replaces the folder
  }
  const fs::path folder = fs::weakly_canonical(folder_of(file), error);
  const fs::path plain = (error ? folder_of(file) : folder) / file.filename();
  // A last part that is empty, or such as "..", is not a name.
  const fs::path whole = fs::weakly_canonical(plain, error);
  return error ? plain : whole;
}

WholeFile::WholeFile(const fs::path& file, Draft draft) : file_(file) {
  special_ = check_kind(file);
  if (special_) {
    open_special();
    return;
  }
  file_ = without_links(file);
  hidden_ =
      folder_of(file_) / fmt::format(".{}.millrace", file_.filename().string().substr(0, kLongest));
  if (draft == Draft::unnamed) open_unnamed();
  if (descriptor_ < 0) open_hidden();
}

WholeFile::~WholeFile() {
  if (on_disk_ && !finished_) ::unlink(hidden_.c_str());  // before the lock is released
  if (descriptor_ >= 0) ::close(descriptor_);
}

void WholeFile::open_special() {
  descriptor_ = ::open(file_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor_ < 0) fail();
}

void WholeFile::open_unnamed() {
  descriptor_ = ::open(folder_of(file_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (descriptor_ < 0) return;
  if (::access(path_of(descriptor_).c_str(), F_OK) == 0) return;
  ::close(descriptor_);  // without /proc the file could not get a name
  descriptor_ = -1;
}

void WholeFile::open_hidden() {
  for (;;) {
    descriptor_ = ::open(hidden_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kMode);
    if (descriptor_ < 0) fail();
    lock(descriptor_);
    if (same_file(descriptor_, hidden_)) break;
    ::close(descriptor_);  // its writer has finished meanwhile
  }
  on_disk_ = true;
  static_cast<void>(::ftruncate(descriptor_, 0));  // a killed writer may have left bytes
}

void WholeFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void WholeFile::finish() {
  if (special_) {
    finished_ = true;
    return;
  }
  struct stat before {};
  if (::stat(file_.c_str(), &before) == 0 && ::fchmod(descriptor_, before.st_mode & 07777U) != 0) {
    fail();
  }
  if (!sync(descriptor_)) fail();
  take_name();
}

void WholeFile::take_name() {
  const Descriptor folder{::open(folder_of(file_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (folder.number() < 0) fail();
  if (!on_disk_) {
    lock(folder.number());      // no other process uses the hidden name at the same time
    ::unlink(hidden_.c_str());  // left by a process that was killed between the next two calls
    if (::linkat(AT_FDCWD, path_of(descriptor_).c_str(), AT_FDCWD, hidden_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0) {
      fail();
    }
    on_disk_ = true;
  }
  if (::rename(hidden_.c_str(), file_.c_str()) != 0) fail();
  finished_ = true;
  if (!sync(folder.number())) fail();  // a name is on the disk only when its folder is
}

void check_whole_file(const fs::path& file) {
  if (!check_kind(file)) const WholeFile probe{file};
}

}  // namespace millrace
