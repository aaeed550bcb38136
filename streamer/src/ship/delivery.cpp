#include <utility>

#include "ship/worker.hpp"

namespace millrace {

void Shipper::Worker::run() {
  std::string why;
  bool overtaken = false;
  try {
    begin();
    while (std::optional<ship::MergedSteps> next = take()) deliver(std::move(*next));
    flush();
  } catch (const ship::OutOfTime&) {
    why = "the deadline has passed";
  } catch (const SinkError& error) {
    why = error.what();
    // A later trainer writes to the sink: rows that this one delivered do not count any more
    // (ShippingLog::end).
    overtaken = error.kind() == SinkError::Kind::overtaken;
  } catch (const std::exception& error) {
    why = error.what();
  }
  end(why, overtaken);
}

void Shipper::Worker::end(const std::string& why, bool overtaken) {
  const std::lock_guard lock{mutex_};
  busy_ = false;
  log_.end(why, overtaken);
  retrier_.end();
  lifecycle_.finish(why);
  executor_.released(this);
  changed_->notify_all();
}

void Shipper::Worker::begin() {
  // The sink does not continue this trainer's tables: all rows are sent.
  if (!writer_.begin()) return snapshot();
  const ship::SinkWriter::Recaptured outdated = writer_.recapture_outdated(recapture_);
  if (outdated.rows == 0) return;
  const std::lock_guard lock{mutex_};
  pending_.add(outdated.ticket, outdated.rows);
}

void Shipper::Worker::snapshot() {
  writer_.begin_chain();
  const std::lock_guard lock{mutex_};
  log_.snapshot();
  pending_.add(recapture_.recapture_all(), recapture_.all_rows());
}

std::optional<ship::MergedSteps> Shipper::Worker::take() {
  std::unique_lock lock{mutex_};
  busy_ = false;
  log_.idle();
  note_oldest();
  while (queue_.empty()) {
    // Rows that were written but not flushed do not count as delivered.
    if (lifecycle_.out_of_time() && writer_.unflushed()) throw ship::OutOfTime{};
    if ((requests_.flush && writer_.unflushed()) ||
        (requests_.look_for_absent && !lifecycle_.closing())) {
      serve_requests(lock);
      continue;
    }
    requests_ = {};
    if (lifecycle_.ending()) return std::nullopt;
    changed_->wait(lock);
  }
  if (lifecycle_.out_of_time()) throw ship::OutOfTime{};
  std::optional<ship::MergedSteps> next = queue_.pop();
  executor_.acquired(this);
  log_.begin(*next);
  busy_ = true;
  changed_->notify_all();
  return next;
}

// All steps are delivered: does what `drain` and `close` requested.
void Shipper::Worker::serve_requests(std::unique_lock<std::mutex>& lock) {
  // `drained` must return false while this flushes without the lock.
  busy_ = true;
  const bool look = requests_.look_for_absent;
  lock.unlock();
  flush();
  if (look) find_absent();
  lock.lock();
  busy_ = false;
  if (look && queue_.empty()) requests_.look_for_absent = false;
}

void Shipper::Worker::deliver(ship::MergedSteps next) {
  Shipment& shipment = next.shipment;
  StepCommit& commit = shipment.batch.commit;
  const std::uint64_t missing = commit.missing;  // as counted at the capture
  while (true) {
    commit.missing = missing + outstanding(shipment.recaptures);
    if (writer_.write(shipment.batch)) break;
    snapshot();
    retrier_.pause();  // a sink may lose its commits repeatedly
  }
  {
    const Nanoseconds now = executor_.now();
    const std::lock_guard lock{mutex_};
    pending_.delivered(shipment.recaptures, missing);
    log_.delivered(next, now);
    note_oldest();
  }
  if (writer_.snapshot_requested()) snapshot();
  if (writer_.since_flush() >= options_.flush_every) flush();
}

// Returns the number of rows of recaptures that a shipment with this ticket does not include.
std::uint64_t Shipper::Worker::outstanding(std::uint64_t ticket) {
  const std::lock_guard lock{mutex_};
  return pending_.drop_included(ticket);
}

void Shipper::Worker::flush() {
  if (!writer_.flush()) snapshot();
}

// Recaptures rows that the sink has lost without an error.
void Shipper::Worker::find_absent() {
  {
    const std::lock_guard lock{mutex_};
    // Missing rows are still pending. The caller of `drain` calls it again after their delivery.
    if (pending_.missing_now() > 0) return;
  }
  if (!writer_.keeps_all()) return snapshot();
  ship::PresentRows present{beginning_.schema};
  const auto listed = writer_.list(present);
  if (listed == ship::SinkWriter::Listed::no_time) {
    const std::lock_guard lock{mutex_};
    log_.unchecked("there was no time to list its rows");
  }
  if (listed != ship::SinkWriter::Listed::all) return;
  present.visit_absent([&](const StepBatch& rows) {
    const std::uint64_t ticket = recapture_.recapture(rows);
    if (ticket == 0) return;  // rows of another rank
    const std::lock_guard lock{mutex_};
    pending_.add(ticket, rows.size());
    log_.absent(rows.size());
  });
}

}  // namespace millrace
