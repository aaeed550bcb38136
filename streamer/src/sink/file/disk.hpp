#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace millrace::sink {

/** @brief What the writing of segments asks of the system, as the calls of these names answer.
 *         Passed in, so that tests can let it fail. */
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

/** @throws SinkError: wrong for what no waiting mends (permissions, say), else retry */
[[noreturn]] void throw_system_error(int error, const std::string& what);

/** @brief As open(2), made anew where interrupted. @throws SinkError */
[[nodiscard]] File open_file(const std::filesystem::path& path, int flags);
/** @brief Nothing: there is no such file. @throws SinkError for everything else */
[[nodiscard]] File open_to_read(const std::filesystem::path& path);
/** @brief Reads up to `into` from an offset; less only at the end. @throws SinkError */
[[nodiscard]] std::size_t read_at(const File& file, std::uint64_t offset, std::span<std::byte> into,
                                  const std::filesystem::path& path);
/** @brief Whether this file is what has that name: nobody took it away, or put another there. */
[[nodiscard]] bool is_at(const File& file, const std::filesystem::path& path);
/** @throws SinkError */
void write_all(Disk& disk, const File& file, std::span<const std::byte> bytes,
               const std::filesystem::path& path);
/** @brief What a folder's files are called is on the disk. @throws SinkError */
void flush_folder(Disk& disk, const std::filesystem::path& folder);
[[nodiscard]] std::uint64_t size_of(const File& file, const std::filesystem::path& path);

}  // namespace millrace::sink
