#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "millrace/device/executor.hpp"
#include "millrace/streamer/shipper.hpp"
#include "millrace/streamer/sink.hpp"

/// @file
/// Appliers: keep a copy of the tables up to date from a log of batches.
///
/// Terms:
///   - batch: the rows of one or more steps of one rank, and the commit after them.
///   - copy: the sink that the applier writes to.
///   - position: where the applier continues to read the log. The copy stores it with each commit.
///   - gap: something that the copy needs is no longer in the log.
///   - snapshot: all rows of all tables, sent again by every rank on request.
///   - missing row: a row that changed, or belongs to a snapshot, and is not delivered yet.

namespace millrace {

/** @brief What an applier did since its construction. */
struct ApplyReport {
  std::uint64_t batches = 0, rows = 0, bytes = 0;  ///< written, or found in the copy already
  std::uint64_t gaps = 0;                          ///< gaps found
  std::uint64_t snapshots = 0;                     ///< snapshots requested
  std::uint64_t retries = 0;
  std::uint64_t restarts = 0;  ///< how often the copy was emptied and the log read again
  bool has_schema = false;     ///< the schema is known, from the log or from the copy
  bool failing = false;        ///< the last call failed: the state of the copy is unknown
  std::string last_gap;        ///< description of the last gap
  /** Message of the last call that was retried; empty: no call was retried. */
  std::string last_error;
  bool complete = false;  ///< the copy has all rows of the log that was read so far
};

/**
 * @brief Keeps a copy up to date with a log, batch by batch, from where it stopped.
 *
 * The read position is stored in the copy together with the commits, so an applier that is killed
 * at any time continues at the right place. Reading a batch twice does no harm, because the newest
 * version of a row stays.
 *
 * On a gap (the source no longer holds the next batch, a commit refers to an unknown predecessor,
 * or announced rows are absent) the applier requests a snapshot. Until it arrives the copy's
 * commits report missing rows; new rows are still written. If the copy is emptied, the applier
 * reads the log again from its beginning.
 *
 * Thread safety: one thread at a time.
 */
class Applier {
 public:
  /**
   * @param source    the log; outlives this
   * @param copy      outlives this
   * @param executor  its clock measures pauses; outlives this
   * @param retries   the pauses between retries; other options have no effect
   *
   * Reads and writes nothing yet. `apply_next`, `flush` and `left` report the errors of the source
   * and of the copy.
   */
  Applier(RecordSource& source, Sink& copy, Executor& executor,
          const ShippingOptions& retries = {});
  ~Applier();
  Applier(const Applier&) = delete;
  Applier& operator=(const Applier&) = delete;

  /** @brief Called before a failing call is retried. Returns false to give up. */
  using GoOn = std::function<bool()>;

  /**
   * @brief Applies the next batch.
   * @param patience  longest wait for a batch
   * @param go_on     see GoOn
   * @return false if no batch arrived within `patience`, or `go_on` returned false
   * @throws SinkError `wrong` if the source or the copy will never work; RecordError for damaged
   *         records
   */
  bool apply_next(Nanoseconds patience, const GoOn& go_on);
  /** @brief Makes the copy as durable as its kind of sink promises.
   * @throws like apply_next */
  void flush(const GoOn& go_on);

  /**
   * @brief Measures the part of the log that the copy does not have yet. The log counts as it is at
   *        the time of the call. A copy that was emptied meanwhile begins again.
   * @return the part; its count is 0 if the copy has all of the log. std::nullopt if `go_on`
   *         returned false before the part was known
   * @throws as apply_next
   */
  [[nodiscard]] std::optional<RecordSource::Left> left(const GoOn& go_on);

  [[nodiscard]] ApplyReport report() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
