#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/step_batch.hpp"

namespace millrace::sink {

/** @brief Rows of one rank in one partition, up to a commit. */
struct Segment {
  StepBatch rows;
  std::int64_t first = -1;  ///< offset of the first message; -1: none
  std::optional<StepCommit> commit;
  bool gap = false;      ///< a message may have been compacted away
  bool cut = false;      ///< may begin before the first message that can be read
  bool damaged = false;  ///< a foreign message may have replaced one of its rows
};

/** @brief Rows of a batch that are absent. */
struct Lacking {
  std::uint64_t holes = 0;  ///< rows that were compacted away, and replaced
  std::uint64_t lost = 0;   ///< rows that only a snapshot can bring
  std::string first;        ///< describes the first lost rows
};

[[nodiscard]] std::uint64_t different_rows(const StepBatch& rows);

/** @brief Adds the rows before a commit that does not count to the next segment. */
void prepend(const Segment& earlier, Segment& later);

/** @brief Counts the absent rows of one partition's segments, which follow the commit `before`. */
void look_for_lacking(const std::vector<Segment>& segments, Version before, Lacking& lacking);

/**
 * @brief Merges the newest version of each row. A record that is no row of the schema counts as
 * lost.
 */
[[nodiscard]] StepBatch merged(const std::vector<std::vector<Segment>>& parts,
                               const StreamSchema& schema, Lacking& lacking);

}  // namespace millrace::sink
