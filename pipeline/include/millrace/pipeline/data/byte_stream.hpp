#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace millrace {

/** @brief A sequence of bytes that is read once, from first to last. */
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /**
   * @brief Reads bytes into `room`, at most `room.size()`.
   * @return the number of bytes read; 0 only at the end
   * @throws RetriableError if reading failed
   * @throws DataError if the data is damaged (for instance a truncated gzip file)
   */
  [[nodiscard]] virtual std::size_t read(std::span<char> room) = 0;
  /** @brief Approximate fraction of the input that was read, 0 to 1, if known; for progress. */
  [[nodiscard]] virtual std::optional<double> share_read() const { return std::nullopt; }
};

/** @brief An input that can be opened, and read from its beginning, any number of times. */
struct ByteSource {
  std::string name;  ///< used in messages
  std::function<std::unique_ptr<ByteStream>()> open;
};

/**
 * @brief A file, plain or compressed with gzip. The contents decide which, not the file name.
 *
 * `open` throws RetriableError if the file cannot be opened. Reading throws DataError if compressed
 * data is truncated or damaged.
 */
[[nodiscard]] ByteSource file_source(const std::filesystem::path& file);

/** @brief A text that a program has in memory already, read like a file. @param name  used in
 *         messages */
[[nodiscard]] ByteSource text_source(std::string name, std::string text);

}  // namespace millrace
