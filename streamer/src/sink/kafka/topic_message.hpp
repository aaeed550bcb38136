#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::sink {

/** Headers of messages: the rank, in decimal, where it is not 0; with a mark the position of who
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

}  // namespace millrace::sink
