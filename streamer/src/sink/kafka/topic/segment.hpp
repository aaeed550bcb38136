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
  std::int64_t first = -1;  ///< offset
  std::optional<StepCommit> commit;
  bool gap = false;      ///< a message may have been compacted away
  bool cut = false;      ///< it may have begun before what there is to read
  bool damaged = false;  ///< one of them may have been what was strange
};

/** @brief What is not there of a batch. */
struct Lacking {
  std::uint64_t holes = 0;  ///< rows that were compacted away, and replaced
  std::uint64_t lost = 0;   ///< rows that nothing brings but a snapshot
  std::string first;        ///< of what is lost, in words
};

[[nodiscard]] std::uint64_t different_rows(const StepBatch& rows);

/** @brief Rows before a commit that does not count belong to the next one. */
void prepend(const Segment& earlier, Segment& later);

/** @brief Adds what is missing in one partition's segments that follow the commit `before`. */
void look_for_lacking(const std::vector<Segment>& segments, Version before, Lacking& lacking);

/** @brief The newest version of each row; what stands where a row of the schema was is lost. */
[[nodiscard]] StepBatch merged(const std::vector<std::vector<Segment>>& parts,
                               const StreamSchema& schema, Lacking& lacking);

}  // namespace millrace::sink
