#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace millrace::model {

/** @brief A file beside the one that it is to become; gone with the object if it did not. */
class UnfinishedFile {
 public:
  /** @throws CheckpointError */
  explicit UnfinishedFile(std::filesystem::path file);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::uint64_t number);
  /** @brief Synced to the disk, and then in its place. */
  void finish();

 private:
  [[noreturn]] void refuse() const;

  const std::filesystem::path file_;
  std::string name_;
  const int descriptor_;
  bool finished_ = false;
};

/** @brief Reads a file, from its beginning on. */
class InputFile {
 public:
  /** @throws CheckpointError */
  explicit InputFile(const std::filesystem::path& file);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /** @brief All of `room`. @throws CheckpointError if there is less, or reading fails */
  void read(std::span<std::byte> room);
  [[nodiscard]] std::uint64_t read_number();
  void seek(std::uint64_t position);

 private:
  const std::filesystem::path file_;
  const int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace millrace::model
