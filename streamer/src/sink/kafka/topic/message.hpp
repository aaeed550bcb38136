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

/** Headers of messages: the rank, in decimal, where it is not 0; with a commit the position of who
 *  applies. */
inline constexpr const char* kRankHeader = "rank";
inline constexpr const char* kPositionHeader = "position";

/** @brief A record as it comes from a topic. */
struct TopicMessage {
  std::int32_t part = 0;
  std::int64_t offset = 0;
  std::uint32_t rank = 0;             ///< who wrote it
  std::span<const std::byte> record;  ///< at any address
  std::string_view position{};
};

/** @brief Reads the records of messages, and tells those that nobody of ours wrote. */
class MessageReader {
 public:
  /** @brief Nothing: it is none of ours. Points into this, until the next one is read. */
  [[nodiscard]] std::optional<Record> read(const TopicMessage& message);
  /** @brief Of the record that was read last. */
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /** @brief Where the last message was that is none of ours, and why; empty: there was none. */
  [[nodiscard]] const std::string& strange() const noexcept { return strange_; }

 private:
  std::vector<std::byte> bytes_;  ///< aligned
  std::string strange_;
};

}  // namespace millrace::sink
