#include "millrace/streamer/shipper.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "ship/backoff.hpp"
#include "ship/lag.hpp"
#include "ship/ship_queue.hpp"

namespace millrace {
namespace {

constexpr std::array kPolicies{QueuePolicy::coalesce, QueuePolicy::recapture, QueuePolicy::block};
constexpr Nanoseconds kGlance = std::chrono::milliseconds{1};
constexpr std::size_t kRowsAtOnce = 4096;  ///< that are marked

/** Thrown when there is no more time for calls to be made again. */
struct OutOfTime {};

}  // namespace

std::string_view to_string(QueuePolicy policy) noexcept {
  switch (policy) {
    case QueuePolicy::coalesce:
      return "coalesce";
    case QueuePolicy::recapture:
      return "recapture";
    case QueuePolicy::block:
      return "block";
  }
  return "?";
}

QueuePolicy parse_queue_policy(std::string_view name) {
  for (const QueuePolicy policy : kPolicies) {
    if (name == to_string(policy)) return policy;
  }
  throw std::invalid_argument(
      fmt::format("there is no queue policy '{}'; there are coalesce, recapture and block", name));
}

class Shipper::Worker {
 public:
  Worker(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
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
  void offer(Shipment shipment, Executor& of_caller) {
    std::unique_lock lock{mutex_};
    report_.offered = {beginning_.epoch, shipment.batch.mark.step};
    while (options_.when_full == QueuePolicy::block && !queue_.fits(shipment.batch) && !ended() &&
           !closing_) {
      lock.unlock();
      of_caller.spend(kGlance);
      lock.lock();
    }
    if (ended()) {
      ++report_.undelivered_steps;
      report_.undelivered_rows += shipment.batch.size();
      return;
    }
    const StepMark mark = shipment.batch.mark;
    const std::uint64_t recaptures = shipment.recaptures;
    try {
      enqueue(std::move(shipment));
    } catch (const std::bad_alloc&) {
      forget_all(mark, recaptures);
    }
    report_.most_queue_bytes = std::max(report_.most_queue_bytes, queue_.bytes());
    executor_.released(this);
    changed_->notify_all();
  }

  bool drain(Nanoseconds at_most) {
    const Nanoseconds until = executor_.now() + at_most;
    {
      const std::lock_guard lock{mutex_};
      flush_asked_ = true;
    }
    changed_->notify_all();
    while (!drained()) {
      if (executor_.now() >= until || over()) return drained();
      executor_.spend(kGlance);
    }
    return true;
  }

  void close(Nanoseconds at_most) {
    {
      const std::lock_guard lock{mutex_};
      closing_ = true;
      until_ = executor_.now() + at_most;
      flush_asked_ = true;
    }
    changed_->notify_all();
  }

  void stop(Nanoseconds at_most) {
    if (!task_) return;
    close(at_most);
    try {
      std::exchange(task_, nullptr)->join();
    } catch (...) {  // the machine is being taken down
    }
  }

  [[nodiscard]] std::string given_up() const {
    if (!ended_.load(std::memory_order_acquire)) return {};  // nobody waits for who coalesces
    const std::lock_guard lock{mutex_};
    return report_.given_up;
  }

  [[nodiscard]] ShippingReport report() const {
    const std::lock_guard lock{mutex_};
    ShippingReport report = report_;
    report.missing = missing_then_ + rows_behind(delivered_ticket_);
    report.queue_bytes = queue_.bytes();
    report.coalesced_rows = queue_.coalesced_rows();
    report.undelivered_steps += queue_.steps() + under_way_steps_;
    report.undelivered_rows += queue_.rows() + under_way_rows_;
    report.lag_p50 = lags_.quantile(0.5);
    report.lag_p99 = lags_.quantile(0.99);
    return report;
  }

 private:
  /** Rows that are to be told behind a ticket. */
  struct Again {
    std::uint64_t ticket = 0, rows = 0;
  };

  [[nodiscard]] bool ended() const { return over_; }
  [[nodiscard]] bool over() const {
    const std::lock_guard lock{mutex_};
    return over_;
  }
  [[nodiscard]] bool drained() const {
    const std::lock_guard lock{mutex_};
    return queue_.empty() && !busy_ && !flush_asked_ && !over_;
  }

  void enqueue(Shipment shipment) {
    const bool blocks = options_.when_full == QueuePolicy::block;  // and it is closing: a few more
    if (blocks || queue_.fits(shipment.batch)) return queue_.push(std::move(shipment));
    if (options_.when_full == QueuePolicy::coalesce && queue_.coalesce(shipment)) return;
    // Behind what waits, as a step whose rows are missing.
    const std::uint64_t rows = shipment.batch.size();
    report_.recaptured_rows += rows;
    again_.push_back({recapture_.again(shipment.batch), rows});
    StepBatch none;
    none.mark = shipment.batch.mark;
    none.mark.rows = 0;
    shipment.batch = std::move(none);
    if (queue_.fits(shipment.batch) || !queue_.coalesce(shipment)) queue_.push(std::move(shipment));
  }

  /** Without host memory for what waits: all is captured again. */
  void forget_all(const StepMark& newest, std::uint64_t recaptures) {
    report_.recaptured_rows += recapture_.all_rows();
    queue_.clear();
    again_.push_back({recapture_.everything(), recapture_.all_rows()});
    Shipment mark{.recaptures = recaptures, .captured = executor_.now()};
    mark.batch.mark = newest;
    mark.batch.mark.rows = 0;
    queue_.push(std::move(mark));
  }

  void run() {
    std::string why;
    try {
      begin();
      while (std::optional<Shipment> next = take()) deliver(std::move(*next));
      flush();
    } catch (const OutOfTime&) {
      why = "there was no more time";
    } catch (const std::exception& error) {
      why = error.what();
    }
    const std::lock_guard lock{mutex_};
    over_ = true;
    busy_ = false;
    report_.given_up = why;
    ended_.store(true, std::memory_order_release);
    executor_.released(this);
    changed_->notify_all();
  }

  /** Makes a call until it goes well. @throws OutOfTime, SinkError (lost, wrong), others */
  template <typename Call>
  auto insist(Call&& call) {
    while (true) {
      try {
        if constexpr (std::is_void_v<decltype(call())>) {
          call();
          return backoff_.reset();
        } else {
          auto result = call();
          backoff_.reset();
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

  void failed(const char* what) {
    const std::lock_guard lock{mutex_};
    report_.last_error = what;
    ++report_.retries;
    ++failures_;
  }

  /** In slices, so that a deadline that is set meanwhile holds. */
  void pause(Nanoseconds length) {
    const Nanoseconds end = executor_.now() + length;
    while (executor_.now() < end) {
      if (out_of_time()) throw OutOfTime{};
      executor_.spend(std::min<Nanoseconds>(end - executor_.now(), 10 * kGlance));
    }
    if (out_of_time()) throw OutOfTime{};
  }

  [[nodiscard]] bool out_of_time() {
    const std::lock_guard lock{mutex_};
    return closing_ && executor_.now() >= until_;
  }

  /** Finds out what the sink has, and what of it is to be told anew. */
  void begin() {
    const SinkState there = insist([&] { return sink_->state(); });
    if (there.newest_epoch() > beginning_.epoch) {
      throw SinkError{SinkError::Kind::wrong,
                      fmt::format("it has epoch {}, and this trainer is of epoch {}: a later one "
                                  "writes to it, or this host's clock is behind the last one's",
                                  there.newest_epoch(), beginning_.epoch)};
    }
    insist([&] { sink_->begin(beginning_.schema); });
    const auto mark = there.marks.find(beginning_.rank);
    if (mark != there.marks.end()) {
      after_ = mark->second.version;
      answered_ = mark->second.answers;
    }
    const bool asked = asked_for_snapshot();
    if (asked || !goes_on(there)) return snapshot();
    tell_anew_beyond();
  }

  /** Rows of steps that the tables do not come from. */
  void tell_anew_beyond() {
    Again beyond;
    insist([&] {
      beyond.rows = 0;
      StepBatch some;
      const auto mark = [&] {
        beyond.rows += some.size();
        beyond.ticket = std::max(beyond.ticket, recapture_.again(some));
        some = {};
      };
      sink_->read([&](const RowRecord& row) {
        if (out_of_time()) throw OutOfTime{};
        if (beginning_.lineage.contains(row.version)) return;
        some.add({.version = row.version, .table = row.table, .row = row.row});
        if (some.size() == kRowsAtOnce) mark();
      });
      if (!some.empty()) mark();
    });
    if (beyond.rows == 0) return;
    const std::lock_guard lock{mutex_};
    again_.push_back(beyond);
  }

  /**
   * Whether all that the tables were by the lineage's last step has been told there: in that epoch,
   * or in one that began with the same tables. One that began elsewhere may lack rows of steps that
   * it does not descend from. Ranks that there are no more do not count: who came behind them told
   * all rows.
   */
  [[nodiscard]] bool goes_on(const SinkState& there) const {
    const Version last = beginning_.lineage.last();
    if (last == Version{}) return false;
    std::uint32_t ranks = 0;
    const bool all = std::ranges::all_of(there.marks, [&](const auto& of_rank) {
      const StepMark& mark = of_rank.second;
      if (mark.rank >= beginning_.ranks && mark.version.epoch < there.newest_epoch()) return true;
      ++ranks;
      const bool ours = mark.version.epoch == beginning_.epoch;  // of a rank that was quicker
      const bool behind = mark.version.epoch == last.epoch && mark.step >= last.step;
      return mark.ranks == beginning_.ranks &&
             (ours || (mark.missing == 0 && (behind || mark.base == last)));
    });
    return all && ranks == beginning_.ranks;
  }

  void snapshot() {
    after_ = {};
    const std::lock_guard lock{mutex_};
    ++report_.snapshots;
    again_.push_back({recapture_.everything(), recapture_.all_rows()});
  }

  std::optional<Shipment> take() {
    std::unique_lock lock{mutex_};
    busy_ = false;
    under_way_steps_ = under_way_rows_ = 0;
    while (queue_.empty()) {
      if (closing_ && executor_.now() >= until_ && unflushed_) throw OutOfTime{};
      if (flush_asked_ && unflushed_) {
        busy_ = true;
        lock.unlock();
        flush();
        lock.lock();
        busy_ = false;
        continue;
      }
      flush_asked_ = false;
      if (closing_) return std::nullopt;
      changed_->wait(lock);
    }
    if (closing_ && executor_.now() >= until_) throw OutOfTime{};
    std::optional<Shipment> next = queue_.pop();
    executor_.acquired(this);
    under_way_steps_ = queue_.popped_steps();
    under_way_rows_ = next->batch.size();
    busy_ = true;
    changed_->notify_all();
    return next;
  }

  void deliver(Shipment shipment) {
    StepMark& mark = shipment.batch.mark;
    const std::uint64_t told = mark.missing;
    while (true) {
      mark.after = after_;
      mark.missing = told + outstanding(shipment.recaptures);
      mark.answers = answered_;
      mark.base = beginning_.lineage.last();
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
    after_ = mark.version;
    delivered(shipment, told);
    if (asked_for_snapshot()) snapshot();
    if (executor_.now() - flushed_ >= options_.flush_every) flush();
  }

  /** Rows that those shipped up to this ticket do not have. */
  [[nodiscard]] std::uint64_t outstanding(std::uint64_t ticket) {
    const std::lock_guard lock{mutex_};
    std::erase_if(again_, [&](const Again& again) { return again.ticket <= ticket; });
    return rows_behind(ticket);
  }
  [[nodiscard]] std::uint64_t rows_behind(std::uint64_t ticket) const {
    std::uint64_t rows = 0;
    for (const Again& again : again_) {
      if (again.ticket > ticket) rows += again.rows;
    }
    return rows;
  }

  /** @param missing  as it was captured */
  void delivered(const Shipment& shipment, std::uint64_t missing) {
    const Nanoseconds now = executor_.now();
    const std::lock_guard lock{mutex_};
    report_.delivered = {beginning_.epoch, shipment.batch.mark.step};
    missing_then_ = missing;
    delivered_ticket_ = shipment.recaptures;
    report_.steps += under_way_steps_;
    report_.rows += shipment.batch.size();
    report_.bytes += shipment.batch.bytes();
    under_way_steps_ = under_way_rows_ = 0;
    unflushed_ = true;
    lags_.add(now - shipment.captured);
  }

  [[nodiscard]] bool asked_for_snapshot() {
    try {
      const std::uint64_t asked = sink_->snapshot_request();
      return asked != 0 && asked != std::exchange(answered_, asked);
    } catch (const SinkError& error) {  // it is looked at again with the next step
      failed(error.what());
      return false;
    }
  }

  /** A flush that failed may have taken back what was written before it. */
  void flush() {
    if (unflushed_) {
      const std::uint64_t before = failures_;
      insist([&] { sink_->flush(); });
      if (failures_ != before && !has_newest_mark()) snapshot();
    }
    unflushed_ = false;
    flushed_ = executor_.now();
  }
  [[nodiscard]] bool has_newest_mark() {
    const SinkState there = insist([&] { return sink_->state(); });
    const auto mark = there.marks.find(beginning_.rank);
    return mark != there.marks.end() && mark->second.version == after_;
  }

  const std::shared_ptr<Sink> sink_;
  Executor& executor_;
  Recapture& recapture_;
  const StreamBeginning beginning_;
  const ShippingOptions options_;

  // Of the actor.
  ship::Backoff backoff_;
  Version after_;
  std::uint64_t answered_ = 0;  ///< requests for a snapshot
  std::uint64_t failures_ = 0;
  bool unflushed_ = false;
  Nanoseconds flushed_{0};

  mutable std::mutex mutex_;
  const std::unique_ptr<Condition> changed_;
  ship::ShipQueue queue_;
  std::deque<Again> again_;
  std::uint64_t missing_then_ = 0;      ///< of the last step that was delivered, as captured
  std::uint64_t delivered_ticket_ = 0;  ///< that it was captured behind
  ship::Lags lags_;
  ShippingReport report_;
  std::uint64_t under_way_steps_ = 0, under_way_rows_ = 0;
  Nanoseconds until_{0};
  bool busy_ = true;  ///< until it has looked at the sink
  bool flush_asked_ = false, closing_ = false, over_ = false;
  std::atomic<bool> ended_ = false;  ///< as over_

  std::unique_ptr<Executor::Task> task_;
};

Shipper::Shipper(std::shared_ptr<Sink> sink, Executor& executor, Recapture& recapture,
                 const StreamBeginning& beginning, const ShippingOptions& options) {
  if (sink == nullptr) throw std::invalid_argument{"a shipper ships to a sink"};
  if (options.first_retry <= Nanoseconds{0} || options.longest_retry < options.first_retry) {
    throw std::invalid_argument{
        "the first retry comes after more than 0 s, and the longest pause "
        "is no shorter"};
  }
  worker_ = std::make_unique<Worker>(std::move(sink), executor, recapture, beginning, options);
}

Shipper::~Shipper() { stop(Nanoseconds{0}); }

void Shipper::offer(Shipment shipment, Executor& of_caller) {
  worker_->offer(std::move(shipment), of_caller);
}
void Shipper::close(Nanoseconds at_most) { worker_->close(at_most); }
bool Shipper::drain(Nanoseconds at_most) { return worker_->drain(at_most); }
void Shipper::stop(Nanoseconds at_most) { worker_->stop(at_most); }
ShippingReport Shipper::report() const { return worker_->report(); }
std::string Shipper::given_up() const { return worker_->given_up(); }

}  // namespace millrace
