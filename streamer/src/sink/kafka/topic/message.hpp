#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace::sink {

/** Headers of messages: the rank in decimal, if it is not 0; in commits, the applier's position. */
inline constexpr const char* kRankHeader = "rank";
inline constexpr const char* kPositionHeader = "position";

/** @brief A record as it was read from a topic. */
struct TopicMessage {
  std::int32_t part = 0;
  std::int64_t offset = 0;
  std::uint32_t rank = 0;             ///< rank that wrote it
  std::span<const std::byte> record;  ///< not necessarily aligned
  std::string_view position{};
};

/** @brief Reads the records of messages, and recognizes foreign messages. */
class MessageReader {
 public:
  /**
   * @return the record; nothing for a foreign message. It points into this object, and is valid
   * until the next message is read
   */
  [[nodiscard]] std::optional<Record> read(const TopicMessage& message);
  /** @brief Returns the bytes of the record that was read last. */
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /** @return the place of the last foreign message, and why it is foreign; empty: none was read */
  [[nodiscard]] const std::string& strange() const noexcept { return strange_; }

 private:
  std::vector<std::byte> bytes_;  ///< aligned
  std::string strange_;
};

}  // namespace millrace::sink
