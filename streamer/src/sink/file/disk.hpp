#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace millrace::sink {

/**
 * @brief The system calls that write segments, with the results of the calls of these names. Passed
 * in, so that tests can make them fail.
 */
class Disk {
 public:
  virtual ~Disk() = default;
  virtual ssize_t write(int file, const void* from, std::size_t bytes);
  virtual int fsync(int file);
  virtual int ftruncate(int file, off_t bytes);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);

  [[nodiscard]] static Disk& system();
};

/** @brief Owns a file descriptor. */
class File {
 public:
  File() = default;
  explicit File(int file) noexcept : file_(file) {}
  ~File() { close(); }
  File(File&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

  [[nodiscard]] int get() const noexcept { return file_; }
  [[nodiscard]] explicit operator bool() const noexcept { return file_ >= 0; }
  void close() noexcept;

 private:
  int file_ = -1;
};

/** @throws SinkError: wrong if waiting cannot help (for instance permissions), otherwise retry */
[[noreturn]] void throw_system_error(int error, const std::string& what);

/** @brief Like open(2); an interrupted call is repeated. @throws SinkError */
[[nodiscard]] File open_file(const std::filesystem::path& path, int flags);
/** @return nothing if the file does not exist. @throws SinkError for any other error */
[[nodiscard]] File open_to_read(const std::filesystem::path& path);
/**
 * @brief Reads from an offset.
 * @return bytes read: fewer than requested only at the end
 * @throws SinkError
 */
[[nodiscard]] std::size_t read_at(const File& file, std::uint64_t offset, std::span<std::byte> into,
                                  const std::filesystem::path& path);
/** @return true if the path still names this open file: it was not removed or replaced */
[[nodiscard]] bool is_at(const File& file, const std::filesystem::path& path);
/** @throws SinkError */
void write_all(Disk& disk, const File& file, std::span<const std::byte> bytes,
               const std::filesystem::path& path);
/** @brief Makes the names of a folder's files durable. @throws SinkError */
void flush_folder(Disk& disk, const std::filesystem::path& folder);
[[nodiscard]] std::uint64_t size_of(const File& file, const std::filesystem::path& path);

}  // namespace millrace::sink
