#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "millrace/streamer/sink.hpp"

/// @file
/// The state of a stream as the commits of a sink describe it. Terms (commit, missing row, copy,
/// epoch): sink.hpp.

namespace millrace {

/**
 * @brief The state of a sink at one instant. Ages are in milliseconds, computed from the clock of
 *        this machine and that of the trainer.
 *
 * Every row that changed before the time of a rank's newest commit is in the sink, or is counted as
 * missing. If no row is missing, the oldest undelivered row is at most as old as the newest commit;
 * if rows are missing, it is at least that old.
 */
struct StreamStatus {
  SinkState sink;
  bool empty = false;           ///< no stream was written to the sink
  std::uint32_t ranks = 0;      ///< number of ranks in the newest epoch
  std::uint32_t committed = 0;  ///< number of ranks that have a commit in that epoch
  std::uint64_t missing = 0;    ///< rows that are missing according to the newest commits
  /** Age of the oldest of the ranks' newest commits; none if a commit has no time. */
  std::optional<std::uint64_t> age_ms;
  bool applied = false;                  ///< the sink is a copy: an applier writes it
  std::vector<std::uint32_t> waits_for;  ///< ranks from which the copy waits for a snapshot

  /** @return true if all ranks have committed a step, and no row is missing */
  [[nodiscard]] bool complete() const noexcept {
    return !empty && committed == ranks && missing == 0 && waits_for.empty();
  }
};

/**
 * @brief Reads the state of a sink without writing to it.
 * @param now_ms  current time in milliseconds since 1970
 * @throws SinkError if the sink cannot be read; `wrong` if it has commits and no schema
 */
[[nodiscard]] StreamStatus status_of(Sink& sink, std::uint64_t now_ms);

/** @brief How far a copy lags behind its log. */
struct CopyLag {
  std::string lost;         ///< why the log no longer has the copy's position; empty: it has it
  RecordSource::Left left;  ///< part of the log that is not applied
  /** Age of the oldest batch that is not applied; none: unknown, or all batches are applied. */
  std::optional<std::uint64_t> oldest_ms;
};

/**
 * @brief Reads the log of a copy from the copy's position on. Requests no snapshot.
 * @param now_ms  current time in milliseconds since 1970
 * @throws SinkError if the log cannot be read
 * @throws std::invalid_argument if this library did not write the position of the copy
 */
[[nodiscard]] CopyLag lag_of(const StreamStatus& copy, RecordSource& log, std::uint64_t now_ms);

}  // namespace millrace
