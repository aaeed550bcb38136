#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/sink.hpp"

namespace millrace {

/**
 * @brief What the marks of a sink say, at one instant. Ages are in milliseconds, by the clock of
 *        this machine and that of the trainer.
 *
 * Every row that changed before the time of a rank's newest mark is in the sink, or is counted as
 * missing. So the age of the newest mark is the most that the oldest undelivered row can have
 * waited where nothing is missing, and the least where something is.
 */
struct StreamStatus {
  SinkState sink;
  bool empty = false;         ///< nothing was streamed there
  std::uint32_t ranks = 0;    ///< of the newest epoch
  std::uint32_t told = 0;     ///< of them, those that have a mark in that epoch
  std::uint64_t missing = 0;  ///< rows that the newest marks call missing
  /** Of the rank whose newest mark is the oldest; none: a mark has no time. */
  std::optional<std::uint64_t> age_ms;
  bool applied = false;                  ///< it is a copy that an applier writes
  std::vector<std::uint32_t> waits_for;  ///< ranks whose snapshot a copy waits for

  /** @brief Whether all ranks have told a step, and nothing is missing. */
  [[nodiscard]] bool complete() const noexcept {
    return !empty && told == ranks && missing == 0 && waits_for.empty();
  }
};

/**
 * @brief Looks at a sink without writing to it.
 * @param now_ms  milliseconds since 1970
 * @throws SinkError: wrong, too, for a sink that has marks and no schema
 */
[[nodiscard]] StreamStatus status_of(Sink& sink, std::uint64_t now_ms);

/** @brief How far a copy is behind the log that it is made from. */
struct CopyLag {
  std::string lost;         ///< why the log no longer has the copy's place; empty: it does
  RecordSource::Left left;  ///< of the log, not applied
  std::optional<std::uint64_t> oldest_ms;  ///< age of the oldest batch that is not applied
};

/**
 * @brief Looks at the log of a copy, from the copy's place on; asks nobody for anything.
 * @throws SinkError; std::invalid_argument for a copy whose position is of another program
 */
[[nodiscard]] CopyLag lag_of(const StreamStatus& copy, RecordSource& log, std::uint64_t now_ms);

}  // namespace millrace
