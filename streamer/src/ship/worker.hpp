#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "millrace/streamer/shipper.hpp"
#include "ship/lifecycle.hpp"
#include "ship/pending_recaptures.hpp"
#include "ship/retrier.hpp"
#include "ship/ship_queue.hpp"
#include "ship/shipping_log.hpp"
#include "ship/sink_writer.hpp"

namespace millrace {

/**
 * @brief The implementation of Shipper: callers fill a queue, and an actor empties it.
 *
 * worker.cpp has the functions for callers, delivery.cpp those of the actor. The parts:
 *
 *     ShipQueue          steps that wait, merged
 *     PendingRecaptures  rows that the sink waits for
 *     ShippingLog        counts for the report
 *     SinkWriter         the sink and its chain of commits; the actor's
 *     Retrier            retries and pauses; thread-safe
 *     Lifecycle          running, closing, ending, finished; thread-safe
 *
 * The mutex protects the first three and the requests. It is locked while rows are merged, but not
 * during a call to the sink. `health` does not lock it, so it never waits for a merge.
 */
class Shipper::Worker {
 public:
  Worker(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
         const StreamBeginning& beginning, const ShippingOptions& options);

  void offer(Shipment shipment, Executor& caller);
  void rows_lost(std::uint64_t ticket);
  bool drain(Nanoseconds at_most, bool look_for_absent);
  void close(Nanoseconds at_most);
  void stop(Nanoseconds at_most);
  [[nodiscard]] ShippingHealth health() const;
  [[nodiscard]] ShippingReport report() const;

 private:
  /** Requests of `drain` and `close` that the actor has not served yet. */
  struct Requests {
    bool flush = false;
    bool look_for_absent = false;
    [[nodiscard]] bool any() const noexcept { return flush || look_for_absent; }
  };

  // Callers.
  [[nodiscard]] bool drained() const;
  void enqueue(Shipment shipment);
  void recapture(const StepBatch& rows);
  void forget_all(const StepCommit& newest, std::uint64_t recaptures);
  void add_recapture_of_all(std::uint64_t ticket);
  void note_oldest();

  // The actor.
  void run();
  void end(const std::string& why, bool overtaken);
  void begin();
  void snapshot();
  [[nodiscard]] std::optional<ship::MergedSteps> take();
  void serve_requests(std::unique_lock<std::mutex>& lock);
  void deliver(ship::MergedSteps next);
  void flush();
  void find_absent();
  [[nodiscard]] std::uint64_t outstanding(std::uint64_t ticket);

  const std::shared_ptr<Sink> sink_;
  Executor& executor_;
  Recapture& recapture_;
  const StreamBeginning beginning_;
  const ShippingOptions options_;
  ship::Lifecycle lifecycle_;
  ship::Retrier retrier_;
  ship::SinkWriter writer_;

  mutable std::mutex mutex_;
  const std::unique_ptr<Condition> changed_;
  ship::ShipQueue queue_;
  ship::PendingRecaptures pending_;
  ship::ShippingLog log_;
  Requests requests_;
  bool busy_ = true;  ///< the actor works; at first it reads the state of the sink

  static constexpr Nanoseconds::rep kNone = -1;
  std::atomic<Nanoseconds::rep> oldest_ = kNone;  ///< capture time of the oldest undelivered step

  std::unique_ptr<Executor::Task> task_;
};

}  // namespace millrace
