#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "apply/copy_position.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace::apply {

/** @brief A batch that was read, as the copy gets it. */
struct Prepared {
  RecordSource::Next next;  ///< its commit as the copy's chain wants it
  CopyPosition position;    ///< of the copy after it
  std::string lost;         ///< what the copy lacks from here on, in words; empty: nothing new
  bool asked = false;       ///< for a snapshot, if something is lost
};

/**
 * @brief What a copy has of a log, and what it is known to lack. Knows nothing of calls that fail.
 *
 * A rank lacks something from a gap on until a snapshot of that rank has begun. Where the log no
 * longer has the place that the copy had reached, each rank's newest commit is searched for in what
 * is left: until the rank's chain was found to go on, it is unknown whether the copy has
 * everything.
 */
class CopyProgress {
 public:
  explicit CopyProgress(std::string source) : source_(std::move(source)) {}

  /** @brief Begins with what the copy has. @throws std::invalid_argument for a foreign position */
  void begin(SinkState copy);
  /** @param all_rows  of all tables: what commits call missing after a gap */
  void set_rows(std::uint64_t all_rows) noexcept { all_rows_ = all_rows; }

  [[nodiscard]] const SinkState& copy() const noexcept { return copied_; }
  [[nodiscard]] const std::string& place() const noexcept { return position_.source; }

  /** @brief The log no longer has the place: what is left of it is read from its beginning. */
  void lose_place();
  /** @brief Ranks whose newest commit was not found in the log since it lost the place. */
  [[nodiscard]] const std::set<std::uint32_t>& not_found() const noexcept { return not_found_; }

  [[nodiscard]] Prepared prepare(RecordSource::Next next);
  /** @brief The copy has it. */
  void applied(Prepared prepared);

  /** @brief Whether the copy lacks nothing that its commits speak of. */
  [[nodiscard]] bool whole() const;
  /** @brief Whether a copy that has this has all that was applied. */
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
