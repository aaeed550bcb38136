#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "ship/resume.hpp"
#include "ship/worker.hpp"

namespace millrace {
namespace {

constexpr Nanoseconds kSlice = std::chrono::milliseconds{10};  ///< of a pause

/** Thrown when there is no more time for calls to be made again. */
struct OutOfTime {};

}  // namespace

void Shipper::Worker::run() {
  std::string why;
  bool overtaken = false;
  try {
    begin();
    while (std::optional<ship::MergedSteps> next = take()) deliver(std::move(*next));
    flush();
  } catch (const OutOfTime&) {
    why = "there was no more time";
  } catch (const SinkError& error) {
    why = error.what();
    overtaken = error.kind() == SinkError::Kind::overtaken;
  } catch (const std::exception& error) {
    why = error.what();
  }
  end(why, overtaken);
}

/** What was delivered before a later trainer came is that one's to replace: nothing of it counts.
 */
void Shipper::Worker::end(const std::string& why, bool overtaken) {
  const std::lock_guard lock{mutex_};
  busy_ = false;
  report_.given_up = why;
  if (overtaken) {
    report_.undelivered_steps += std::exchange(report_.steps, 0);
    report_.undelivered_rows += std::exchange(report_.rows, 0);
    report_.bytes = 0;
    report_.delivered = {};
  }
  {
    const std::lock_guard words{words_};
    given_up_ = why;
  }
  failing_since_ = kNever;
  ended_ = true;
  executor_.released(this);
  changed_->notify_all();
}

/** Makes a call until it goes well. @throws OutOfTime, SinkError (lost, wrong), others */
template <typename Call>
auto Shipper::Worker::insist(Call&& call) {
  while (true) {
    try {
      if constexpr (std::is_void_v<decltype(call())>) {
        call();
        return succeeded();
      } else {
        auto result = call();
        succeeded();
        return result;
      }
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::retry) throw;
      failed(error.what());
    } catch (const std::bad_alloc&) {
      failed("no host memory was left");
    }
    pause(backoff_.next());
  }
}

void Shipper::Worker::succeeded() {
  backoff_.reset();
  failing_since_ = kNever;
}

void Shipper::Worker::failed(const char* what) {
  ++failures_;
  {
    const std::lock_guard lock{mutex_};
    report_.last_error = what;
    ++report_.retries;
  }
  {
    const std::lock_guard words{words_};
    error_ = what;
  }
  Nanoseconds::rep never = kNever;
  failing_since_.compare_exchange_strong(never, executor_.now().count());
}

/** In slices, so that a deadline that is set meanwhile holds. */
void Shipper::Worker::pause(Nanoseconds length) {
  const Nanoseconds end = executor_.now() + length;
  while (executor_.now() < end) {
    if (out_of_time()) throw OutOfTime{};
    executor_.spend(std::min<Nanoseconds>(end - executor_.now(), kSlice));
  }
  if (out_of_time()) throw OutOfTime{};
}

bool Shipper::Worker::out_of_time() const { return closing_ && executor_.now().count() >= until_; }

/** Finds out what the sink has, and what of it is to be told anew. */
void Shipper::Worker::begin() {
  const SinkState there = insist([&] { return sink_->state(); });
  if (there.newest_epoch() > beginning_.epoch) {
    throw SinkError{SinkError::Kind::wrong,
                    fmt::format("it has epoch {}, and this trainer is of epoch {}: a later one "
                                "writes to it, or this host's clock is behind the last one's",
                                there.newest_epoch(), beginning_.epoch)};
  }
  insist([&] { sink_->begin(beginning_.schema); });
  const auto commit = there.commits.find(beginning_.rank);
  if (commit != there.commits.end()) {
    after_ = commit->second.version;
    answered_ = commit->second.answers;
  }
  const bool asked = asked_for_snapshot();
  if (asked || !ship::goes_on(there, beginning_) || !keeps_all()) return snapshot();
  tell_anew();
}

/** Rows of steps that the tables do not come from, and rows that are not there. */
void Shipper::Worker::tell_anew() {
  Again anew;
  ship::PresentRows present{beginning_.schema};
  const auto commit = [&](const StepBatch& rows) {
    anew.rows += rows.size();
    anew.ticket = std::max(anew.ticket, recapture_.recapture(rows));
  };
  insist([&] {
    anew.rows = 0;
    ship::RowBatches beyond{commit};
    sink_->read([&](const RowRecord& row) {
      if (out_of_time()) throw OutOfTime{};
      present.add(row.table, row.row);
      if (!beginning_.lineage.contains(row.version)) beyond.add(row.table, row.row, row.version);
    });
    beyond.finish();
  });
  present.visit_absent(commit);
  if (anew.rows == 0) return;
  const std::lock_guard lock{mutex_};
  again_.push_back(anew);
}

void Shipper::Worker::snapshot() {
  after_ = {};
  const std::lock_guard lock{mutex_};
  ++report_.snapshots;
  again_.push_back({recapture_.recapture_all(), recapture_.all_rows()});
}

std::optional<ship::MergedSteps> Shipper::Worker::take() {
  std::unique_lock lock{mutex_};
  busy_ = false;
  under_way_steps_ = under_way_rows_ = 0;
  note_oldest();
  while (queue_.empty()) {
    if (out_of_time() && unflushed_) throw OutOfTime{};
    if ((flush_asked_ && unflushed_) || (look_asked_ && !closing_)) {
      serve_requests(lock);
      continue;
    }
    flush_asked_ = look_asked_ = false;
    if (closing_) return std::nullopt;
    changed_->wait(lock);
  }
  if (out_of_time()) throw OutOfTime{};
  std::optional<ship::MergedSteps> next = queue_.pop();
  executor_.acquired(this);
  under_way_steps_ = next->captured.steps();
  under_way_rows_ = next->shipment.batch.size();
  under_way_since_ = next->captured.oldest();
  busy_ = true;
  changed_->notify_all();
  return next;
}

/** What is asked for when all was delivered. */
void Shipper::Worker::serve_requests(std::unique_lock<std::mutex>& lock) {
  busy_ = true;
  const bool look = look_asked_;
  lock.unlock();
  flush();
  if (look) find_absent();
  lock.lock();
  busy_ = false;
  if (look && queue_.empty()) look_asked_ = false;
}

void Shipper::Worker::deliver(ship::MergedSteps next) {
  Shipment& shipment = next.shipment;
  StepCommit& commit = shipment.batch.commit;
  const std::uint64_t told = commit.missing;
  while (true) {
    commit.after = after_;
    commit.missing = told + outstanding(shipment.recaptures);
    commit.answers = answered_;
    commit.base = beginning_.lineage.last();
    try {
      insist([&] { sink_->write(shipment.batch); });
      break;
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      failed(error.what());
      snapshot();
      pause(backoff_.next());  // it may say so again and again
    }
  }
  after_ = commit.version;
  delivered(next, told);
  if (asked_for_snapshot()) snapshot();
  if (executor_.now() - flushed_ >= options_.flush_every) flush();
}

/** Rows that those shipped up to this ticket do not have. */
std::uint64_t Shipper::Worker::outstanding(std::uint64_t ticket) {
  const std::lock_guard lock{mutex_};
  std::erase_if(again_, [&](const Again& again) { return again.ticket <= ticket; });
  return rows_behind(ticket);
}

/** @param missing  as it was captured */
void Shipper::Worker::delivered(const ship::MergedSteps& steps, std::uint64_t missing) {
  const Nanoseconds now = executor_.now();
  const StepBatch& batch = steps.shipment.batch;
  const std::lock_guard lock{mutex_};
  report_.delivered = {beginning_.epoch, batch.commit.step};
  missing_then_ = missing;
  delivered_ticket_ = steps.shipment.recaptures;
  report_.steps += under_way_steps_;
  report_.rows += batch.size();
  report_.bytes += batch.bytes();
  under_way_steps_ = under_way_rows_ = 0;
  unflushed_ = true;
  for (const auto& entry : steps.captured.entries()) lags_.add(now - entry.at, entry.steps);
  note_oldest();
}

bool Shipper::Worker::asked_for_snapshot() {
  try {
    const std::uint64_t asked = sink_->snapshot_request();
    return asked != 0 && asked != std::exchange(answered_, asked);
  } catch (const SinkError& error) {  // it is looked at again with the next step
    failed(error.what());
    return false;
  }
}

/** A flush that failed may have taken back what was written before it. */
void Shipper::Worker::flush() {
  if (unflushed_) {
    const std::uint64_t before = failures_;
    insist([&] { sink_->flush(); });
    if ((failures_ != before && !has_newest_commit()) || !keeps_all()) snapshot();
  }
  unflushed_ = false;
  flushed_ = executor_.now();
}

bool Shipper::Worker::has_newest_commit() {
  const SinkState there = insist([&] { return sink_->state(); });
  const auto commit = there.commits.find(beginning_.rank);
  return commit != there.commits.end() && commit->second.version == after_;
}

/** Whether the sink has, for all that it can tell, what was written. */
bool Shipper::Worker::keeps_all() {
  try {
    insist([&] { sink_->audit(beginning_.rank, beginning_.epoch); });
    return true;
  } catch (const SinkError& error) {
    if (error.kind() != SinkError::Kind::lost) throw;
    failed(error.what());
    return false;
  }
}

/** Rows that went from the sink without a word are told again. */
void Shipper::Worker::find_absent() {
  struct Closed {};
  {
    const std::lock_guard lock{mutex_};
    if (missing_now() > 0) return;  // rows come: whoever drains asks again behind them
  }
  if (!keeps_all()) return snapshot();
  ship::PresentRows present{beginning_.schema};
  try {
    const bool listed = insist([&] {
      return sink_->list_rows([&](std::uint32_t table, std::int64_t row) {
        if (closing_) throw Closed{};
        present.add(table, row);
      });
    });
    if (!listed) return;
  } catch (const Closed&) {
    const std::lock_guard lock{mutex_};
    report_.unchecked = "there was no time to count its rows";
    return;
  }
  present.visit_absent([&](const StepBatch& rows) {
    const std::uint64_t ticket = recapture_.recapture(rows);
    if (ticket == 0) return;  // another rank's
    const std::lock_guard lock{mutex_};
    again_.push_back({ticket, rows.size()});
    report_.absent_rows += rows.size();
  });
}

}  // namespace millrace
