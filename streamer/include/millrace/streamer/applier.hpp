#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/device/executor.hpp"
#include "millrace/streamer/shipper.hpp"
#include "millrace/streamer/sink.hpp"

namespace millrace {

struct ApplyReport {
  std::uint64_t batches = 0, rows = 0, bytes = 0;  ///< that were written, or were there already
  std::uint64_t gaps = 0;       ///< found: something was lost before the copy had it
  std::uint64_t snapshots = 0;  ///< asked for
  std::uint64_t retries = 0;
  std::uint64_t restarts = 0;  ///< the copy had lost what it had, and the log was read again
  bool begun = false;          ///< the schema is known: the log's, or the copy's
  bool failing = false;        ///< the last call was one that failed: what is there is not known
  std::string last_gap;        ///< what it was, in words
  std::string last_error;      ///< of a call that was made again; empty: there was none
  bool whole = false;          ///< the copy lacks nothing of what was read of the log so far
};

/**
 * @brief Keeps a copy up to date with what a source tells, batch by batch, from where it stopped.
 *
 * Where the copy is in the source is kept in the copy, with the marks: a copy that was stopped at
 * any instant goes on at the right place. What is told twice does no harm, since the newest version
 * of a row stays. Where something is lacking (the source has no more what comes next, a mark goes
 * behind one that is not here, rows that it speaks of are not there) all rows are asked for anew,
 * and until they have come the marks of the copy call rows missing; rows that come meanwhile are
 * written. A copy that was emptied gets the log again, from where the copy is now.
 */
class Applier {
 public:
  /** @param executor  its clock is that of pauses; all of it outlives this */
  Applier(RecordSource& source, Sink& copy, Executor& executor,
          const ShippingOptions& retries = {});
  ~Applier();
  Applier(const Applier&) = delete;
  Applier& operator=(const Applier&) = delete;

  /** @brief Asked before a failing call is made again: false ends it. */
  using GoOn = std::function<bool()>;

  /**
   * @brief Applies the next batch. @return false: there was none within `patience`, or `go_on` said
   *        so
   * @throws SinkError (wrong) for what will never work; RecordError for records that are damaged
   */
  bool apply_next(Nanoseconds patience, const GoOn& go_on);
  /** @brief The copy survives a power failure, as far as it promises to. @throws as apply_next */
  void flush(const GoOn& go_on);

  /**
   * @brief What the copy does not have yet of the log as it is now. A copy that was emptied
   *        meanwhile begins again.
   * @return count 0: the end of the log is reached; nothing: `go_on` said so before it was known
   * @throws as apply_next
   */
  [[nodiscard]] std::optional<RecordSource::Left> left(const GoOn& go_on);

  [[nodiscard]] ApplyReport report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
