#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "millrace/pipeline/data/whole_file.hpp"

namespace millrace::model {

/** @brief A checkpoint that is being written: a `WholeFile` whose errors are CheckpointErrors. */
class UnfinishedFile {
 public:
  /** @throws CheckpointError */
  explicit UnfinishedFile(std::filesystem::path file);

  void write(std::span<const std::byte> bytes);
  void write(std::uint64_t number);
  void finish();

  /** @brief Checks that a checkpoint could be written there, and changes nothing.
   *  @throws CheckpointError if it could not */
  static void check(const std::filesystem::path& file);

 private:
  const std::filesystem::path file_;
  std::optional<WholeFile> whole_;
};

/** @brief Reads a file, initially from its beginning. */
class InputFile {
 public:
  /** @throws CheckpointError */
  explicit InputFile(const std::filesystem::path& file);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /** @brief Fills `room`. @throws CheckpointError if the file ends too early, or reading fails */
  void read(std::span<std::byte> room);
  [[nodiscard]] std::uint64_t read_number();
  /** @brief Fills `room` from `position` on. Any thread may call it. @throws CheckpointError */
  void read_at(std::uint64_t position, std::span<std::byte> room) const;

 private:
  const std::filesystem::path file_;
  const int descriptor_;
  std::uint64_t size_ = 0, position_ = 0;
};

}  // namespace millrace::model
