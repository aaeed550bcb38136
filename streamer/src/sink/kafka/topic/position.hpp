#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace::sink {

/** @brief Where somebody who reads a topic is. */
struct TopicPosition {
  std::vector<std::int64_t> offsets;         ///< of each partition: from where to read on
  std::map<std::uint32_t, Version> commits;  ///< of each rank: the last one that was given out
  bool whole = true;  ///< they were read from the topic's beginning, and nothing was before that
  std::vector<std::uint32_t> gaps;   ///< partitions with some before those offsets
  std::uint64_t holes = 0;           ///< rows that were compacted away, and are to come
  std::vector<std::int64_t> filled;  ///< behind these offsets they have come

  friend bool operator==(const TopicPosition&, const TopicPosition&) = default;
};

/** @brief One line of JSON. */
[[nodiscard]] std::string to_text(const TopicPosition& position);
/** @throws std::invalid_argument for what is none */
[[nodiscard]] TopicPosition parse_topic_position(std::string_view text);

}  // namespace millrace::sink
