#include "ship/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

namespace millrace {
namespace {

constexpr Nanoseconds kGlance = std::chrono::milliseconds{1};
constexpr Nanoseconds kLongestStop = std::chrono::hours{24 * 365};

}  // namespace

Shipper::Worker::Worker(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
                        const StreamBeginning& beginning, const ShippingOptions& options)
    : sink_(std::move(sink)),
      executor_(executor),
      recapture_(recapture),
      beginning_(beginning),
      options_(options),
      backoff_(options_),
      changed_(executor.make_condition()),
      queue_(options.queue_bytes),
      task_(executor.spawn(fmt::format("ship to {}", sink_->name()), [this] { run(); })) {
  report_.sink = sink_->name();
}

// The caller may live by another clock than the sink, and by an executor that must go on while
// it waits.
void Shipper::Worker::offer(Shipment shipment, Executor& of_caller) {
  std::unique_lock lock{mutex_};
  report_.offered = {beginning_.epoch, shipment.batch.commit.step};
  while (options_.when_full == QueuePolicy::block && !queue_.fits(shipment.batch) && !ended_ &&
         !closing_) {
    lock.unlock();
    of_caller.spend(kGlance);
    lock.lock();
  }
  if (ended_) {
    ++report_.undelivered_steps;
    report_.undelivered_rows += shipment.batch.size();
    return;
  }
  const StepCommit commit = shipment.batch.commit;
  const std::uint64_t recaptures = shipment.recaptures;
  try {
    enqueue(std::move(shipment));
  } catch (const std::bad_alloc&) {
    forget_all(commit, recaptures);
  }
  report_.most_queue_bytes = std::max(report_.most_queue_bytes, queue_.bytes());
  note_oldest();
  executor_.released(this);
  changed_->notify_all();
}

void Shipper::Worker::enqueue(Shipment shipment) {
  switch (options_.when_full) {
    case QueuePolicy::block:  // and while it is closed a few more
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

/** Their step is in the queue without them: its commit will call them missing. */
void Shipper::Worker::recapture(const StepBatch& rows) {
  if (rows.empty()) return;
  report_.recaptured_rows += rows.size();
  again_.push_back({recapture_.recapture(rows), rows.size()});
}

/** Without host memory for what waits: all is captured again. */
void Shipper::Worker::forget_all(const StepCommit& newest, std::uint64_t recaptures) {
  report_.recaptured_rows += recapture_.all_rows();
  queue_.clear();
  again_.push_back({recapture_.recapture_all(), recapture_.all_rows()});
  Shipment commit{.recaptures = recaptures, .captured = executor_.now()};
  commit.batch.commit = newest;
  commit.batch.commit.rows = 0;
  queue_.push_all(std::move(commit));
}

bool Shipper::Worker::drain(Nanoseconds at_most, bool look_for_absent) {
  const Nanoseconds until = executor_.now() + at_most;
  {
    const std::lock_guard lock{mutex_};
    flush_asked_ = true;
    look_asked_ = look_for_absent;
  }
  changed_->notify_all();
  while (!drained()) {
    if (executor_.now() >= until || ended_) return drained();
    executor_.spend(kGlance);
  }
  return true;
}

bool Shipper::Worker::drained() const {
  const std::lock_guard lock{mutex_};
  return queue_.empty() && !busy_ && !flush_asked_ && !look_asked_ && !ended_;
}

void Shipper::Worker::close(Nanoseconds at_most) {
  {
    const std::lock_guard lock{mutex_};
    until_ = (executor_.now() + at_most).count();
    closing_ = true;
    flush_asked_ = true;
  }
  changed_->notify_all();
  sink_->finish_by(std::chrono::steady_clock::now() + std::min(at_most, kLongestStop));
}

void Shipper::Worker::stop(Nanoseconds at_most) {
  if (!task_) return;
  close(at_most);
  try {
    std::exchange(task_, nullptr)->join();
  } catch (...) {  // the machine is being taken down
  }
  sink_->finish_by(std::chrono::steady_clock::time_point::max());  // others may use it
}

ShippingHealth Shipper::Worker::health() const {
  ShippingHealth health;
  const Nanoseconds now = executor_.now();
  const auto since = [&](Nanoseconds::rep then) {
    return then == kNever ? Nanoseconds{0} : std::max(now - Nanoseconds{then}, Nanoseconds{1});
  };
  health.failing_for = since(failing_since_);
  health.failing = health.failing_for > Nanoseconds{0};
  health.oldest = since(oldest_);
  const std::lock_guard lock{words_};
  if (ended_) health.given_up = given_up_;
  if (health.failing) health.error = error_;
  return health;
}

ShippingReport Shipper::Worker::report() const {
  const std::lock_guard lock{mutex_};
  ShippingReport report = report_;
  report.missing = missing_now();
  report.queue_bytes = queue_.bytes();
  report.coalesced_rows = queue_.coalesced_rows();
  report.undelivered_steps += queue_.steps() + under_way_steps_;
  report.undelivered_rows += queue_.rows() + under_way_rows_;
  report.lag_p50 = lags_.quantile(0.5);
  report.lag_p99 = lags_.quantile(0.99);
  report.lag_most = lags_.longest();
  return report;
}

std::uint64_t Shipper::Worker::missing_now() const {
  return missing_then_ + rows_behind(delivered_ticket_);
}

std::uint64_t Shipper::Worker::rows_behind(std::uint64_t ticket) const {
  std::uint64_t rows = 0;
  for (const Again& again : again_) {
    if (again.ticket > ticket) rows += again.rows;
  }
  return rows;
}

void Shipper::Worker::note_oldest() {
  Nanoseconds::rep oldest = kNever;
  if (under_way_steps_ > 0) {
    oldest = under_way_since_.count();
  } else if (!queue_.empty()) {
    oldest = queue_.oldest().count();
  }
  oldest_ = oldest;
}

}  // namespace millrace
