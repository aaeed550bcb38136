#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/streamer/step_batch.hpp"

/// @file
/// Sinks: where a streamer writes changed rows; and sources: logs that can be read again.
///
/// Terms:
///   - batch: the rows of one or more steps of one rank, and the commit after them.
///   - commit: the record that a rank writes after the rows of a batch; it counts the missing rows.
///   - chain: the commits of one rank; each names the previous one in `after`. `after == {}` starts
///     a new chain.
///   - missing row: a row that changed, or belongs to a snapshot, and is not delivered yet.
///   - snapshot: all rows of all tables of a rank. A reader that finds a gap requests one, and
///     every rank answers the request.
///   - copy: a sink that an Applier keeps up to date from a log.
///   - epoch: one start of a trainer; later starts have greater epochs.
///
/// docs/sinks.md lists the kinds of sinks and what each of them promises.

namespace millrace {

/** @brief A sink failed to do an operation. `kind` says how the writer must react. */
class SinkError : public std::runtime_error {
 public:
  /** @brief How the writer must react. */
  enum class Kind {
    retry,      ///< The sink is down, slow or full. The same call may succeed later.
    lost,       ///< The sink does not have the previous commit. Start a new chain with a snapshot.
    wrong,      ///< The sink will never work: it has another schema, or data of another program.
    overtaken,  ///< A later trainer writes to the sink: writes of this one no longer count.
  };
  SinkError(Kind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}

  [[nodiscard]] Kind kind() const noexcept { return kind_; }

 private:
  Kind kind_;
};

/** @brief The contents of a sink, without rows. */
struct SinkState {
  std::optional<StreamSchema> schema;           ///< none: the sink is empty
  std::map<std::uint32_t, StepCommit> commits;  ///< the newest commit of each rank
  std::string position;                         ///< position of the last batch that had one

  /** @return the greatest epoch of all commits; 0 if no rank has committed */
  [[nodiscard]] std::uint64_t newest_epoch() const noexcept;
  /** @return the newest step that all ranks of the newest epoch have committed; nothing if a rank
   *          has no commit in that epoch */
  [[nodiscard]] std::optional<Version> committed_by_all() const noexcept;
  /** @return the number of missing rows according to the ranks' commits of the newest epoch */
  [[nodiscard]] std::uint64_t missing() const noexcept;
};

/**
 * @brief Stores the newest version of each row.
 *
 * Thread safety: any thread may call any function. Constructors neither open nor connect; the first
 * call that needs to does. Every call except the constructor may throw SinkError. After an
 * exception the same call, made again, completes what was partly written.
 */
class Sink {
 public:
  virtual ~Sink() = default;
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  /** @return the address of the sink, without secrets */
  [[nodiscard]] virtual std::string name() const = 0;

  /** @return the current contents, including what other processes wrote */
  [[nodiscard]] virtual SinkState state() = 0;

  /** @brief Stores the schema if the sink is empty.
   *  @throws SinkError `wrong`: the sink has another schema */
  virtual void begin(const StreamSchema& schema) = 0;

  /**
   * @brief Writes the rows of a batch, and then its commit. A row that the sink has in a newer
   *        version stays as it is.
   *
   * Does nothing if the sink already has this commit, or a newer one of the same rank and epoch
   * (the batch is a repeat).
   * @param batch     rows and commit of one rank
   * @param position  the applier's read position, stored together with the commit; empty: none
   * @throws SinkError `lost`: `commit.after` is not the newest commit of that rank in the sink;
   *         nothing was written. `after == {}` starts a new chain and is always accepted.
   *         `overtaken`: the newest commit of that rank has a later epoch; nothing was written.
   *         `retry`: any part of the batch may have been written
   */
  virtual void write(const StepBatch& batch, std::string_view position = {}) = 0;

  /** @brief Makes everything written so far as durable as this kind of sink promises. */
  virtual void flush() = 0;

  /** @brief Visits the newest version of every row, in any order.
   *  @param visit  called with rows whose spans are valid during the call
   *  @throws RecordError for a damaged row; what `visit` throws */
  virtual void read(const std::function<void(const RowRecord&)>& visit) = 0;

  /**
   * @brief Reads the newest request for a snapshot, made by an applier that found a gap.
   *
   * Requests stay in the sink. Every rank answers each of them once and names it in
   * `StepCommit::answers`.
   * @return the number of the request, or 0 if there is none. A later request has another number,
   *         which is not necessarily greater
   */
  [[nodiscard]] virtual std::uint64_t snapshot_request() { return 0; }

  /**
   * @brief Checks cheaply whether the sink still has all data written to it. Called with each
   * flush, and before a trainer continues with existing contents.
   * @param rank   the calling rank: per-rank checks are made for this one
   * @param epoch  epoch of its trainer
   * @throws SinkError `lost`: written rows may be gone, and a snapshot is needed. `wrong`: rows are
   *         gone or will be, and a snapshot does not help. `overtaken`: the sink has a commit of a
   *         later epoch. `retry`: the sink cannot be checked now
   */
  virtual void audit(std::uint32_t rank, std::uint64_t epoch) {
    static_cast<void>(rank);
    static_cast<void>(epoch);
  }

  /**
   * @brief Visits the table and number of every row, without values. A row may be visited twice.
   * @return false if this kind of sink would have to read all values; then nothing is visited
   * @throws the exceptions of `visit`
   */
  [[nodiscard]] virtual bool list_rows(
      const std::function<void(std::uint32_t table, std::int64_t row)>& visit) {
    static_cast<void>(visit);
    return false;
  }

  /**
   * @brief Sets a deadline for calls that a network peer or the read of a large folder can delay,
   *        including the one in progress. After it they throw SinkError `retry`.
   * @param end  `time_point::max()` removes the deadline
   */
  virtual void finish_by(std::chrono::steady_clock::time_point end) noexcept {
    static_cast<void>(end);
  }

 protected:
  Sink() = default;
};

/** @brief A log of batches that can be read in the order in which it was written: a folder of a
 * file sink, or a topic. Used by one thread at a time. */
class RecordSource {
 public:
  /** @brief One batch of the log. */
  struct Next {
    StepBatch batch;
    std::string position;  ///< read position after the batch
    /** Describes rows of this rank that are permanently lost; empty if none. Only this commit
     * counts them in `missing`. The applier must keep counting them until the rank sends a
     * snapshot. */
    std::string lost{};
  };

  /** @brief The part of a log that `next` has not returned yet. */
  struct Left {
    std::uint64_t count = 0;     ///< 0: every complete batch was returned
    std::string_view unit = "";  ///< unit of `count`: "bytes" or "messages"
  };

  virtual ~RecordSource() = default;
  RecordSource(const RecordSource&) = delete;
  RecordSource& operator=(const RecordSource&) = delete;

  /** @return the address of the log, without secrets */
  [[nodiscard]] virtual std::string name() const = 0;
  /** @brief Continues after `position`; empty: from the beginning of the log.
   *  @throws SinkError `lost`: the log no longer has that position; seek to the beginning */
  virtual void seek(std::string_view position) = 0;
  /** @return the schema of the batches that are read next; nothing if the log is empty or has lost
   *          its schema */
  [[nodiscard]] virtual std::optional<StreamSchema> schema() = 0;
  /** @brief Sets the schema of a log that has lost it, from a copy of that log.
   *  @throws SinkError `wrong`: the log has another schema */
  virtual void take_schema(const StreamSchema& schema) = 0;
  /** @return the next complete batch; nothing if none arrives within `patience`
   *  @throws SinkError; RecordError for data that no writer of this library wrote */
  [[nodiscard]] virtual std::optional<Next> next(std::chrono::nanoseconds patience) = 0;
  /** @return how much of the present log `next` has not returned yet. A
   *          truncated batch at the end does not count.
   * @throws like `next` */
  [[nodiscard]] virtual Left left() = 0;
  /** @brief Requests a snapshot from all ranks that write to the log. Each request has another
   *         number than the one before. @see Sink::snapshot_request */
  virtual void ask_for_snapshot() = 0;

 protected:
  RecordSource() = default;
};

/**
 * @brief Removes secrets from an address that a user wrote: user name, password, and the values of
 *        secret settings. Works for invalid addresses, too. Everything that prints, logs or throws
 *        such an address must pass it through this function.
 */
[[nodiscard]] std::string redacted(std::string_view spec);

/**
 * @brief Makes a sink from its address, such as `file:DIR`. sink_kinds.hpp lists the kinds; the
 *        address `memory` makes a MemorySink.
 * @param spec  as a user writes it
 * @throws std::invalid_argument if no kind of sink has such an address, or if this build does not
 *         have that kind: then the message says how to get it
 */
[[nodiscard]] std::unique_ptr<Sink> open_sink(std::string_view spec);
/**
 * @brief Opens a sink to read its batches in the order in which they were written.
 * @throws std::invalid_argument like open_sink, and if that kind of sink keeps no order
 */
[[nodiscard]] std::unique_ptr<RecordSource> open_source(std::string_view spec);

}  // namespace millrace
