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
  CopyPosition position;    ///< the copy's position after it
  std::string lost;         ///< what the copy misses from here on, in words; empty: nothing new
  bool asked = false;       ///< a snapshot was requested, if something is lost
};

/**
 * @brief The part of a log that a copy has, and what is known to be missing. Makes no calls itself.
 *
 * After a gap, rows of a rank are missing until a snapshot of that rank has begun. If the log no
 * longer has the place that the copy had reached, each rank's newest commit is searched for in the
 * rest of the log. Until the continuation of the rank's chain is found, it is unknown whether the
 * copy has everything.
 */
class CopyProgress {
 public:
  explicit CopyProgress(std::string source) : source_(std::move(source)) {}

  /** @brief Begins with what the copy has. @throws std::invalid_argument for a foreign position */
  void begin(SinkState copy);
  /** @param all_rows  number of rows of all tables, which commits report as missing after a gap */
  void set_rows(std::uint64_t all_rows) noexcept { all_rows_ = all_rows; }

  [[nodiscard]] const SinkState& copy() const noexcept { return copied_; }
  [[nodiscard]] const std::string& place() const noexcept { return position_.source; }

  /** @brief The log no longer has the position: the rest of it is read from its beginning. */
  void lose_place();
  /** @brief Ranks whose newest commit was not found in the log since it lost the place. */
  [[nodiscard]] const std::set<std::uint32_t>& not_found() const noexcept { return not_found_; }

  [[nodiscard]] Prepared prepare(RecordSource::Next next);
  /** @brief The copy has written the batch. */
  void applied(Prepared prepared);

  /** @return true if the copy has all rows of its commits */
  [[nodiscard]] bool whole() const;
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
