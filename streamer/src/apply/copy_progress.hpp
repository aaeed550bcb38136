#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "apply/copy_position.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace::apply {

/** @brief A batch that was read, in the form in which the copy gets it. */
struct Prepared {
  RecordSource::Next next;  ///< its commit continues the copy's chain
  CopyPosition position;    ///< the copy's position after the batch
  std::string lost;         ///< what the copy lacks from this batch on, as text; empty: nothing new
  bool asked = false;       ///< whether a snapshot was requested for `lost`
};

/**
 * @brief The part of a log that a copy has, and what it lacks. Makes no calls itself.
 *
 * After a gap, rows of a rank are missing until a snapshot of that rank has begun. If the log no
 * longer has the copy's position, each rank's newest commit is searched for in the rest of the log.
 * Until it, or a later part of the rank's chain, is found, it is unknown whether the copy has
 * everything.
 */
class CopyProgress {
 public:
  explicit CopyProgress(std::string source) : source_(std::move(source)) {}

  /**
   * @brief Begins with the state of the copy. @throws std::invalid_argument for a foreign position
   */
  void begin(SinkState copy);
  /** @param all_rows  number of rows of all tables, which commits report as missing after a gap */
  void set_rows(std::uint64_t all_rows) noexcept { all_rows_ = all_rows; }

  [[nodiscard]] const SinkState& copy() const noexcept { return copied_; }
  [[nodiscard]] const std::string& place() const noexcept { return position_.source; }

  /** @brief Call when the log no longer has the position and is read from its beginning. */
  void lose_place();
  /** @brief Ranks whose newest commit was not found since the log lost the position. */
  [[nodiscard]] const std::set<std::uint32_t>& not_found() const noexcept { return not_found_; }

  [[nodiscard]] Prepared prepare(RecordSource::Next next);
  /** @brief Call after the copy has written the batch. */
  void applied(Prepared prepared);

  /** @return true if the copy has all rows up to its commits */
  [[nodiscard]] bool complete() const;
  /** @return true if a copy with this state has everything that was applied */
  [[nodiscard]] bool is_kept_by(const SinkState& there) const;

 private:
  [[nodiscard]] bool snapshot_began(const StepCommit& commit) const;
  [[nodiscard]] bool is_gone(const StepCommit& commit) const;
  [[nodiscard]] std::string what_is_lost(const RecordSource::Next& next) const;
  [[nodiscard]] Version newest_of(std::uint32_t rank) const;

  std::string source_;
  SinkState copied_;
  CopyPosition position_;
  std::set<std::uint32_t> not_found_;
  std::uint64_t all_rows_ = 0;
};

}  // namespace millrace::apply
