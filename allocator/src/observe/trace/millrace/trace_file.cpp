#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "millrace/observe/trace/trace_writer.hpp"

namespace millrace::trace {
namespace {

constexpr std::uint64_t kStep = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostFileBytes = (std::uint64_t{4} << 30) - 2 * kStep;  // TraceLimits

/**
 * A window of the file is mapped, with room for one record after its step. The space is allocated
 * before it is mapped: on a full disk, a store into a hole would end the process.
 */
class TraceFile final : public TraceSink {
 public:
  explicit TraceFile(const std::string& path)
      : file_(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (file_ >= 0 && map()) return;
    const int error = errno;
    if (file_ >= 0) close(file_);
    throw std::system_error{error, std::generic_category(), path};
  }

  ~TraceFile() override {
    unmap();
    // The zeros after the last record stay where this fails.
    static_cast<void>(!ftruncate(file_, static_cast<off_t>(begin_ + used_)));
    close(file_);
  }

  bool write(std::string_view record) override {
    if (window_ == nullptr || record.empty() || record.size() > kMostRecordBytes) return false;
    if (used_ >= kStep && !next()) return false;
    char* const at = window_ + used_;
    std::memcpy(at + 1, record.data() + 1, record.size() - 1);
    // A record whose first byte is there is whole, whenever the process ends.
    std::atomic_ref<char>{*at}.store(record.front(), std::memory_order_release);
    used_ += record.size();
    return true;
  }

 private:
  static constexpr std::uint64_t kWindow = kStep + kMostRecordBytes;

  bool map() {
    const int error =
        posix_fallocate(file_, static_cast<off_t>(begin_), static_cast<off_t>(kWindow));
    if (error != 0) {
      errno = error;
      return false;
    }
    void* const window = mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED, file_,
                              static_cast<off_t>(begin_));
    if (window == MAP_FAILED) return false;
    window_ = static_cast<char*>(window);
    return true;
  }

  void unmap() {
    if (window_ != nullptr) munmap(window_, kWindow);
    window_ = nullptr;
  }

  bool next() {
    if (begin_ >= kMostFileBytes) return false;
    unmap();
    begin_ += kStep;
    used_ -= kStep;
    return map();
  }

  const int file_;
  char* window_ = nullptr;
  std::uint64_t begin_ = 0;  // of the window, in the file: a multiple of the step
  std::uint64_t used_ = 0;   // of the window
};

}  // namespace

std::unique_ptr<TraceSink> create_trace_file(const std::string& path) {
  return std::make_unique<TraceFile>(path);
}

}  // namespace millrace::trace
