#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/pipeline/data/byte_stream.hpp"
#include "millrace/pipeline/data/malformed_lines.hpp"

namespace millrace {

/** @brief Reads the lines of a byte source, without their ends (LF or CRLF), numbered from 1. */
class LineReader {
 public:
  static constexpr std::size_t kLongest = std::size_t{1} << 16;  ///< longer lines are truncated
  /// A file with a longer line is not a text; it may even be endless, like /dev/zero.
  static constexpr std::size_t kEndless = std::size_t{1} << 26;

  explicit LineReader(const ByteSource& source)
      : name_(source.name), stream_(source.open()), buffer_(kBuffer, '\0') {}

  /**
   * @brief Returns the next line, valid until the next call; std::nullopt at the end.
   * @throws DataError if the line has more than 64 MiB
   */
  [[nodiscard]] std::optional<std::string_view> next();
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }  ///< last line's number
  [[nodiscard]] bool too_long() const noexcept { return too_long_; }  ///< last line was truncated
  /** @brief See ByteStream. */
  [[nodiscard]] std::optional<double> share_read() const { return stream_->share_read(); }

 private:
  static constexpr std::size_t kBuffer = std::size_t{1} << 16;

  void append(std::string_view piece);

  std::string name_;
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::string_view unread_;
  std::string line_;
  std::uint64_t number_ = 0;
  bool too_long_ = false;
};

/** @brief Counts malformed lines, and throws when they exceed the limit. */
class MalformedCounter {
 public:
  MalformedCounter(std::string source, const MalformedLimit& limit)
      : source_(std::move(source)), limit_(limit) {}

  /** @throws DataError that shows the first lines, if the limit is exceeded */
  void add(std::uint64_t number, std::string reason, std::string_view text);
  [[nodiscard]] const MalformedLines& lines() const noexcept { return lines_; }

 private:
  std::string source_;
  MalformedLimit limit_;
  MalformedLines lines_;
};

}  // namespace millrace
