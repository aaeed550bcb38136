#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/record.hpp"

namespace millrace::sink {

/** @brief The position of a reader in a topic. */
struct TopicPosition {
  std::vector<std::int64_t> offsets;         ///< per partition: the next offset to read
  std::map<std::uint32_t, Version> commits;  ///< per rank: the last commit that was returned
  bool whole = true;  ///< reading began at the topic's beginning, before which nothing was deleted
  std::vector<std::uint32_t> gaps;  ///< partitions with a gap before those offsets
  std::uint64_t holes = 0;          ///< rows that were compacted away and must still arrive
  /** Per partition: the offset at which all these rows have arrived. */
  std::vector<std::int64_t> filled;

  friend bool operator==(const TopicPosition&, const TopicPosition&) = default;
};

/** @brief Returns one line of JSON. */
[[nodiscard]] std::string to_text(const TopicPosition& position);
/** @throws std::invalid_argument if the line is not a position */
[[nodiscard]] TopicPosition parse_topic_position(std::string_view line);

}  // namespace millrace::sink
