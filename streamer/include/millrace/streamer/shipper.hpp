#pragma once

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

namespace millrace {

/**
 * @brief What happens to a step for which the queue of a sink has no room.
 *
 * Steps that wait are merged into one with every policy: of each row the newest value waits, in the
 * place of the older one. So what a slow sink lags behind does not depend on the queue's size.
 */
enum class QueuePolicy {
  /** Rows of which an older value waits replace it; the others are captured again with a later
   * step, as far as they have no room. */
  coalesce,
  recapture,  ///< all its rows are captured again with a later step
  block,      ///< whoever offers it waits; slots fill up, and then the capture's policy holds
};
/** @brief "coalesce", "recapture", "block" */
[[nodiscard]] std::string_view to_string(QueuePolicy policy) noexcept;
/** @throws std::invalid_argument that lists the names there are */
[[nodiscard]] QueuePolicy parse_queue_policy(std::string_view name);

struct ShippingOptions {
  /** Bytes of rows that wait; those under way are not counted. */
  std::size_t queue_bytes = std::size_t{256} << 20;
  QueuePolicy when_full = QueuePolicy::coalesce;
  Nanoseconds first_retry = std::chrono::milliseconds{50};  ///< doubled from one to the next
  Nanoseconds longest_retry = std::chrono::seconds{10};
  std::uint64_t seed = 1;  ///< of the jitter: each pause is drawn from its half to all of it
  /** Looked at behind each step that is delivered: what came last is flushed with a later one, or
   * when it is asked for. */
  Nanoseconds flush_every = std::chrono::seconds{1};
};

/** @brief Rows that were changed are told again, with a later step. Thread-safe; called by actors
 *         that ship. */
class Recapture {
 public:
  virtual ~Recapture() = default;
  /**
   * @brief Those of a batch that are this rank's.
   * @return a ticket: shipments that have one as great have been captured behind this; 0 if none
   *         are
   */
  [[nodiscard]] virtual std::uint64_t again(const StepBatch& rows) = 0;
  /** @brief All rows of all tables: a snapshot. */
  [[nodiscard]] virtual std::uint64_t everything() = 0;
  /** @brief How many these are. */
  [[nodiscard]] virtual std::uint64_t all_rows() const = 0;
};

/** @brief What a rank tells of a step. */
struct Shipment {
  StepBatch batch;               ///< its mark's `after` is set by whoever ships
  std::uint64_t recaptures = 0;  ///< the newest ticket that it was captured behind
  Nanoseconds captured{0};       ///< when, on the executor's clock
};

/** @brief Where a stream begins, for a sink that may have rows already. */
struct StreamBeginning {
  StreamSchema schema;
  std::uint64_t epoch = 0;  ///< of this start of the trainer
  std::uint32_t rank = 0, ranks = 1;
  Lineage lineage;  ///< of the tables as they are; empty: nobody streamed them
};

struct ShippingReport {
  std::string sink;
  std::string given_up;               ///< why; empty: it was not
  std::string last_error;             ///< of a call that was tried again; empty: there was none
  Version offered, delivered;         ///< epoch and step
  std::uint64_t steps = 0;            ///< delivered, each that was offered counted
  std::uint64_t rows = 0, bytes = 0;  ///< delivered
  std::uint64_t coalesced_rows = 0;   ///< not sent, since a newer value was
  std::uint64_t recaptured_rows = 0;  ///< not sent, and to be captured again
  std::uint64_t retries = 0, snapshots = 0;
  std::uint64_t absent_rows = 0;  ///< were not there at the end, and were told again
  std::string unchecked;  ///< why rows were not looked for at the end; empty: they were, or the
                          ///< sink can not list them
  std::uint64_t undelivered_steps = 0, undelivered_rows = 0;  ///< offered; now, or at the end
  std::uint64_t missing = 0;  ///< rows that the sink is known to lack now, beside the undelivered
  std::size_t queue_bytes = 0, most_queue_bytes = 0;
  /** From captured to delivered, of all steps: up to 5% more than measured, never less. */
  Nanoseconds lag_p50{0}, lag_p99{0}, lag_most{0};
};

/** @brief How a sink is now, for whoever watches the training. */
struct ShippingHealth {
  std::string given_up;  ///< why; empty: it was not
  std::string error;     ///< of the last call that failed, if `failing`
  bool failing = false;  ///< no call has succeeded since one failed
  Nanoseconds failing_for{0};
  Nanoseconds oldest{0};  ///< how long the oldest undelivered step has waited; 0: none waits
};

/**
 * @brief Brings the steps of a rank to one sink, in their order, by an actor of its own.
 *
 * Whatever a sink does, nothing here throws into training: failing calls are made again, rows that
 * could not be kept are captured again, and a sink that will never work is given up, in the report.
 *
 * At first it looks at what the sink has. One that has all of the lineage gets anew the rows that
 * are of steps beyond it; any other gets a snapshot. A sink that has lost its marks gets one, too.
 */
class Shipper {
 public:
  /** @param sink       may be that of other ranks as well
   *  @param recapture  and `executor` outlive this */
  Shipper(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
          const StreamBeginning& beginning, const ShippingOptions& options = {});
  /** @brief `stop`, with no time for what is left. */
  ~Shipper();
  Shipper(const Shipper&) = delete;
  Shipper& operator=(const Shipper&) = delete;

  /**
   * @brief Takes a step of this rank, later than those before. Called by one actor at a time.
   * @param of_caller  that it is one of: where it waits, for QueuePolicy::block
   */
  void offer(Shipment shipment, Executor& of_caller);

  /**
   * @brief Waits until all that was offered is delivered and flushed.
   * @param look_for_absent  rows that a sink does not have then, if it can list them, are captured
   *                         again: for the end of a run
   * @return whether it is
   */
  bool drain(Nanoseconds at_most, bool look_for_absent = false);
  /** @brief From now on nobody who offers waits, and what is offered has so long: before those who
   *         offer are stopped. */
  void close(Nanoseconds at_most);
  /** @brief Drains, and ends the actor. What is left then is in the report. */
  void stop(Nanoseconds at_most);

  [[nodiscard]] ShippingReport report() const;
  /** @brief For little, also while rows are merged: to be asked while training goes on. */
  [[nodiscard]] ShippingHealth health() const;

 private:
  class Worker;
  std::unique_ptr<Worker> worker_;
};

}  // namespace millrace
