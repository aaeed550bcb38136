#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "millrace/device/executor.hpp"
#include "millrace/streamer/lineage.hpp"
#include "millrace/streamer/sink.hpp"

/// @file
/// Shipping: writes the steps of one rank to one sink, in order, in the background.
///
/// Terms:
///   - shipment: the rows that one rank changed in a step, with their commit.
///   - commit: the record after the rows of a step; it counts the missing rows.
///   - missing row: a row that changed, or belongs to a snapshot, and is not delivered yet.
///   - recapture: rows are captured again and come with a later step, because a sink does not have
///     them.
///   - ticket: the number of one recapture. A shipment names the newest ticket before its capture.
///     The shipper then knows which recaptures the shipment includes.
///   - snapshot: the recapture of all rows.
///   - lineage: the steps that a table consists of (lineage.hpp).
///   - epoch: one start of a trainer; later starts have greater epochs.
///   - lag: the time from the capture of a step until its write to the sink has ended.
///   - actor: a host thread of an Executor.
///   - slot: the buffer that brings the rows of one step to the host (row_capture.hpp).

namespace millrace {

/**
 * @brief What happens to a step when the queue of a sink is full.
 *
 * With every policy the waiting steps are merged into one: the queue keeps only the newest value of
 * each row. So the lag of a slow sink does not depend on the queue's size.
 */
enum class QueuePolicy {
  /** A row replaces its older value in the queue. Other rows that do not fit are recaptured. */
  coalesce,
  recapture,  ///< All rows of the step are recaptured.
  /**
   * `Shipper::offer` blocks. The slots of the capture then fill up, and CaptureOptions::when_full
   * applies.
   */
  block,
};
inline constexpr std::array kQueuePolicies{QueuePolicy::coalesce, QueuePolicy::recapture,
                                           QueuePolicy::block};
/** @return "coalesce", "recapture" or "block" */
[[nodiscard]] std::string_view to_string(QueuePolicy policy) noexcept;

/** @brief How a shipper queues and retries. */
struct ShippingOptions {
  /** Maximum bytes of rows in the queue. Rows that are being written are not counted. */
  std::size_t queue_bytes = std::size_t{256} << 20;
  QueuePolicy when_full = QueuePolicy::coalesce;
  Nanoseconds first_retry = std::chrono::milliseconds{50};  ///< pause before the first retry
  Nanoseconds longest_retry = std::chrono::seconds{10};     ///< pauses double up to this
  std::uint64_t seed = 1;  ///< seed of the jitter: a pause takes 50% to 100% of its length
  /** Time between flushes. The shipper checks it after each delivered step. The last steps are
   * flushed by a later step or by `drain`. */
  Nanoseconds flush_every = std::chrono::seconds{1};
};

/** @brief Captures rows again. Thread-safe; called by the actors that ship. */
class Recapture {
 public:
  virtual ~Recapture() = default;
  /**
   * @brief Captures rows again, with a later step.
   * @param rows  only their tables and numbers count; rows of other ranks are ignored
   * @return a ticket: every shipment whose `recaptures` is at least this was captured after the
   *         call; 0 if none of the rows belong to this rank
   */
  [[nodiscard]] virtual std::uint64_t recapture(const StepBatch& rows) = 0;
  /**
   * @brief Captures all rows of all tables again: a snapshot. @return a ticket, like `recapture`
   */
  [[nodiscard]] virtual std::uint64_t recapture_all() = 0;
  /** @return the number of rows of all tables of this rank */
  [[nodiscard]] virtual std::uint64_t all_rows() const = 0;
};

/** @brief The rows of one step of one rank. */
struct Shipment {
  StepBatch batch;               ///< the shipper sets `after` of its commit
  std::uint64_t recaptures = 0;  ///< newest ticket issued before the rows were captured
  Nanoseconds captured{0};       ///< time of capture, on the shipper's executor's clock
};

/** @brief The tables of a rank when its stream begins. */
struct StreamBeginning {
  StreamSchema schema;
  std::uint64_t epoch = 0;  ///< epoch of this start of the trainer
  std::uint32_t rank = 0, ranks = 1;
  Lineage lineage;  ///< lineage of the current tables; empty: they were never streamed
};

/** @brief What one shipper did. Counts start at its construction. */
struct ShippingReport {
  std::string sink;      ///< name of the sink
  std::string given_up;  ///< why the sink was given up; empty: it was not
  /** Message of the last call that was retried; empty: no call was retried. */
  std::string last_error;
  Version offered, delivered;         ///< epoch and step of the newest offered and delivered step
  std::uint64_t steps = 0;            ///< steps delivered; a merged step counts as all its steps
  std::uint64_t rows = 0, bytes = 0;  ///< rows delivered, and bytes of their records
  std::uint64_t coalesced_rows = 0;   ///< rows not sent because a newer value was sent
  std::uint64_t recaptured_rows = 0;  ///< rows not sent because they are captured again
  std::uint64_t retries = 0, snapshots = 0;
  std::uint64_t absent_rows = 0;  ///< rows that the sink had lost at the end and that were resent
  /** Why the sink was not checked for absent rows at the end. Empty: it was checked, or it cannot
   * list its rows. */
  std::string unchecked;
  std::uint64_t undelivered_steps = 0, undelivered_rows = 0;  ///< offered, but not delivered
  std::uint64_t missing = 0;  ///< rows that the sink lacks now, excluding undelivered rows
  /** Bytes in the queue: now, and the maximum so far. */
  std::size_t queue_bytes = 0, most_queue_bytes = 0;
  /** Median, 99th percentile and maximum lag of all steps. Never less than measured, and at most 5%
   * more. */
  Nanoseconds lag_p50{0}, lag_p99{0}, lag_most{0};
};

/** @brief The current state of one sink. */
struct ShippingHealth {
  std::string given_up;  ///< why the sink was given up; empty: it was not
  std::string error;     ///< message of the last failed call, if `failing`
  bool failing = false;  ///< the last call failed, and none has succeeded since
  Nanoseconds failing_for{0};
  Nanoseconds oldest{0};  ///< age of the oldest undelivered step; 0: all steps are delivered
};

/**
 * @brief Delivers the steps of one rank to one sink, in order, on its own actor.
 *
 * No failure of the sink throws into training: failing calls are retried, rows that could not be
 * kept are recaptured, and a sink that will never work is given up (ShippingReport::given_up).
 *
 * First the shipper compares the sink with the lineage. If the sink has all of the lineage, only
 * its rows from steps outside the lineage are sent again; otherwise a snapshot is sent. A sink that
 * loses its commits later also gets a snapshot.
 *
 * Thread safety: one actor at a time may call `offer`; any thread may call `report` and `health`.
 * One thread at a time may call the other functions; it may be another thread than that of `offer`.
 */
class Shipper {
 public:
  /**
   * @brief Starts the actor.
   * @param sink       may be shared with shippers of other ranks
   * @param executor   runs the actor; outlives this. Its clock measures pauses, deadlines and lags
   * @param recapture  outlives this
   * @param beginning  the tables as they are now
   * @throws std::invalid_argument if `sink` is null, `first_retry` is not positive, or
   *         `longest_retry` is less than `first_retry`
   */
  Shipper(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
          const StreamBeginning& beginning, const ShippingOptions& options = {});
  /** @brief Like `stop` with no time for undelivered steps. */
  ~Shipper();
  Shipper(const Shipper&) = delete;
  Shipper& operator=(const Shipper&) = delete;

  /**
   * @brief Adds a step to the queue. Blocks only with QueuePolicy::block.
   * @param shipment  of a later step than the earlier ones
   * @param caller    executor of the calling actor; with QueuePolicy::block, `offer` waits on it
   */
  void offer(Shipment shipment, Executor& caller);
  /**
   * @brief Reports that the rows of a step were lost before `offer`, because host memory ran out.
   *
   * Call `Recapture::recapture_all` first. Commits then count all rows as missing until that
   * recapture is delivered.
   * @param ticket  the result of Recapture::recapture_all
   */
  void rows_lost(std::uint64_t ticket);

  /**
   * @brief Waits until all offered steps are delivered and flushed.
   * @param at_most          longest wait, on the executor's clock
   * @param look_for_absent  true at the end of a run: also recaptures the rows that the sink has
   *                         lost, if the sink can list its rows
   * @return true if all steps are delivered and flushed
   */
  bool drain(Nanoseconds at_most, bool look_for_absent = false);
  /**
   * @brief Stops `offer` from blocking. Call it before you stop the threads that call `offer`.
   * @param at_most  longest time for the delivery of the queued steps and of those offered later
   */
  void close(Nanoseconds at_most);
  /**
   * @brief Closes, waits for the queued steps, and ends the actor. The report counts the steps that
   *        were not delivered.
   * @param at_most  longest wait, on the executor's clock
   */
  void stop(Nanoseconds at_most);

  [[nodiscard]] ShippingReport report() const;
  /** @brief Cheap enough to poll each step: it never waits while steps are merged. */
  [[nodiscard]] ShippingHealth health() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace millrace
