#include "ship/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace millrace {
namespace {

constexpr Nanoseconds kPause = std::chrono::milliseconds{1};
constexpr Nanoseconds kLongestStop = std::chrono::hours{24 * 365};

}  // namespace

Shipper::Worker::Worker(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
                        const StreamBeginning& beginning, const ShippingOptions& options)
    : sink_(std::move(sink)),
      executor_(executor),
      recapture_(recapture),
      beginning_(beginning),
      options_(options),
      lifecycle_(executor),
      retrier_(executor, options_, lifecycle_),
      writer_({*sink_, executor, retrier_, lifecycle_, beginning_}),
      changed_(executor.make_condition()),
      queue_(options.queue_bytes),
      log_(sink_->name(), beginning.epoch),
      task_(executor.spawn(fmt::format("ship to {}", sink_->name()), [this] { run(); })) {}

// Waits on the caller's executor, because the caller may use another clock than the sink, and its
// executor must run other actors meanwhile.
void Shipper::Worker::offer(Shipment shipment, Executor& caller) {
  std::unique_lock lock{mutex_};
  log_.offered(shipment.batch.commit);
  while (options_.when_full == QueuePolicy::block && !queue_.fits(shipment.batch) &&
         lifecycle_.running()) {
    lock.unlock();
    caller.spend(kPause);
    lock.lock();
  }
  if (lifecycle_.finished()) return log_.refused(shipment.batch);
  const StepCommit commit = shipment.batch.commit;
  const std::uint64_t recaptures = shipment.recaptures;
  try {
    enqueue(std::move(shipment));
  } catch (const std::bad_alloc&) {
    forget_all(commit, recaptures);
  }
  log_.queued(queue_.bytes());
  note_oldest();
  executor_.released(this);
  changed_->notify_all();
}

void Shipper::Worker::enqueue(Shipment shipment) {
  switch (options_.when_full) {
    case QueuePolicy::block:  // `offer` has waited; after `close` the queue grows instead
      return queue_.push_all(std::move(shipment));
    case QueuePolicy::coalesce:
      return recapture(queue_.push(std::move(shipment)));
    case QueuePolicy::recapture:
      break;
  }
  if (queue_.fits(shipment.batch)) return queue_.push_all(std::move(shipment));
  const StepBatch rows = std::exchange(shipment.batch, {});
  shipment.batch.commit = rows.commit;
  shipment.batch.commit.rows = 0;
  queue_.push_all(std::move(shipment));
  recapture(rows);
}

// The queue has the step without these rows; its commit will count them as missing.
void Shipper::Worker::recapture(const StepBatch& rows) {
  if (rows.empty()) return;
  log_.recaptured(rows.size());
  pending_.add(recapture_.recapture(rows), rows.size());
}

// Called when host memory for the queue runs out: recaptures all rows. Only the empty step at the
// end needs memory. It reports the missing rows to the sink's readers at once; without it, later
// steps report them.
void Shipper::Worker::forget_all(const StepCommit& newest, std::uint64_t recaptures) {
  add_recapture_of_all(recapture_.recapture_all());
  queue_.clear();
  try {
    Shipment empty{.recaptures = recaptures, .captured = executor_.now()};
    empty.batch.commit = newest;
    empty.batch.commit.rows = 0;
    queue_.push_all(std::move(empty));
  } catch (const std::bad_alloc&) {
  }
}

void Shipper::Worker::rows_lost(std::uint64_t ticket) {
  const std::lock_guard lock{mutex_};
  add_recapture_of_all(ticket);
}

void Shipper::Worker::add_recapture_of_all(std::uint64_t ticket) {
  log_.recaptured(recapture_.all_rows());
  pending_.add(ticket, recapture_.all_rows());
}

bool Shipper::Worker::drain(Nanoseconds at_most, bool look_for_absent) {
  const Nanoseconds until = executor_.now() + at_most;
  {
    const std::lock_guard lock{mutex_};
    requests_ = {.flush = true, .look_for_absent = look_for_absent};
  }
  changed_->notify_all();
  while (!drained()) {
    if (executor_.now() >= until || lifecycle_.finished()) return drained();
    executor_.spend(kPause);
  }
  return true;
}

bool Shipper::Worker::drained() const {
  const std::lock_guard lock{mutex_};
  return queue_.empty() && !busy_ && !requests_.any() && !lifecycle_.finished();
}

void Shipper::Worker::close(Nanoseconds at_most) {
  {
    const std::lock_guard lock{mutex_};
    lifecycle_.close(at_most);
    // Rows that are written but not flushed do not count as delivered.
    requests_.flush = true;
  }
  changed_->notify_all();
  // Also limits a call that hangs in the sink's client. (A greater time would overflow the clock.)
  sink_->finish_by(std::chrono::steady_clock::now() + std::min(at_most, kLongestStop));
}

void Shipper::Worker::stop(Nanoseconds at_most) {
  if (!task_) return;
  close(at_most);
  {
    const std::lock_guard lock{mutex_};
    lifecycle_.end();
  }
  changed_->notify_all();
  try {
    std::exchange(task_, nullptr)->join();
  } catch (...) {  // the machine is being taken down
  }
  sink_->finish_by(std::chrono::steady_clock::time_point::max());  // others may use it
}

ShippingHealth Shipper::Worker::health() const {
  const ship::Retrier::Health calls = retrier_.health();
  const Nanoseconds::rep oldest = oldest_;
  ShippingHealth health{.given_up = lifecycle_.given_up(),
                        .error = calls.error,
                        .failing = calls.failing_for > Nanoseconds{0},
                        .failing_for = calls.failing_for};
  if (oldest != kNone) {
    health.oldest = std::max(executor_.now() - Nanoseconds{oldest}, Nanoseconds{1});
  }
  return health;
}

ShippingReport Shipper::Worker::report() const {
  const std::lock_guard lock{mutex_};
  ShippingReport report = log_.report();
  report.retries = retrier_.failures();
  report.last_error = retrier_.last_error();
  report.missing = pending_.missing_now();
  report.queue_bytes = queue_.bytes();
  report.coalesced_rows = queue_.coalesced_rows();
  report.undelivered_steps += queue_.steps();
  report.undelivered_rows += queue_.rows();
  return report;
}

void Shipper::Worker::note_oldest() {
  const std::optional<Nanoseconds> writing = log_.oldest();
  if (writing) {
    oldest_ = writing->count();
  } else {
    oldest_ = queue_.empty() ? kNone : queue_.oldest().count();
  }
}

}  // namespace millrace
