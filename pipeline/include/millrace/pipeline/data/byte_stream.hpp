#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace millrace {

/** @brief Bytes, from the first to the last, once. */
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /**
   * @brief Fills as much of `room` as there is. @return bytes; 0 only at the end
   * @throws RetriableError if reading failed; DataError if what is read is damaged
   */
  [[nodiscard]] virtual std::size_t read(std::span<char> room) = 0;
  /** @brief About how much of all was read, 0 to 1, if that is known; for those who wait. */
  [[nodiscard]] virtual std::optional<double> share_read() const { return std::nullopt; }
};

/** @brief Something that can be read from its beginning any number of times. */
struct ByteSource {
  std::string name;  ///< for messages
  std::function<std::unique_ptr<ByteStream>()> open;
};

/**
 * @brief A file, as it is or gzip (by its contents, not its name).
 * Opening throws RetriableError if it can not be opened; data cut short or damaged: DataError.
 */
[[nodiscard]] ByteSource file_source(const std::filesystem::path& file);

[[nodiscard]] ByteSource text_source(std::string name, std::string text);

}  // namespace millrace
