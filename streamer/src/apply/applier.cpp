#include "millrace/streamer/applier.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "apply/copy_progress.hpp"
#include "ship/backoff.hpp"

namespace millrace {
namespace {

constexpr Nanoseconds kGlance = std::chrono::milliseconds{10};

std::uint64_t rows_of(const StreamSchema& schema) {
  std::uint64_t rows = 0;
  for (const StreamedTable& table : schema.tables) rows += table.rows;
  return rows;
}

}  // namespace

class Applier::State {
 public:
  State(RecordSource& source, Sink& copy, Executor& executor, const ShippingOptions& retries)
      : source_(source),
        copy_(copy),
        executor_(executor),
        retries_(retries),
        backoff_(retries_),
        progress_(source.name()) {}

  bool apply_next(Nanoseconds patience, const GoOn& go_on) {
    go_on_ = &go_on;
    if (!has_schema_ && !begin(patience)) return false;
    if (!prepared_ && !insist([&] { read(patience); })) return false;
    if (prepared_) return apply();
    if (!progress_.not_found().empty()) static_cast<void>(left_of_source());
    return false;
  }

  void flush(const GoOn& go_on) {
    go_on_ = &go_on;
    insist([&] { copy_.flush(); });
  }

  std::optional<RecordSource::Left> left(const GoOn& go_on) {
    go_on_ = &go_on;
    if (has_schema_ && !insist([&] { look_at_copy(); })) return std::nullopt;
    if (!has_schema_) static_cast<void>(begin(Nanoseconds{0}));
    if (!sought_) return std::nullopt;
    auto left = left_of_source();
    if (left && prepared_) left->count = std::max<std::uint64_t>(left->count, 1);
    return left;
  }

  [[nodiscard]] ApplyReport report() const {
    ApplyReport report = report_;
    report.has_schema = has_schema_;
    report.complete = progress_.complete();
    return report;
  }

 private:
  /** @return false if `go_on` returned false */
  template <typename Call>
  bool insist(Call&& call) {
    while ((*go_on_)()) {
      try {
        call();
        backoff_.reset();
        report_.failing = false;
        return true;
      } catch (const SinkError& error) {
        if (error.kind() != SinkError::Kind::retry) throw;
        report_.failing = true;
        ++report_.retries;
        report_.last_error = error.what();
      }
      pause(backoff_.next());
    }
    return false;
  }

  void pause(Nanoseconds length) {
    const Nanoseconds end = executor_.now() + length;
    while (executor_.now() < end && (*go_on_)()) {
      executor_.spend(std::min<Nanoseconds>(end - executor_.now(), kGlance));
    }
  }

  /** @return false if the source has no schema yet, or `go_on` returned false */
  bool begin(Nanoseconds patience) {
    if (!sought_) {
      SinkState there;
      // The copy stores its own position, so nothing else is kept from run to run.
      if (!insist([&] { there = copy_.state(); })) return false;
      take_state(std::move(there));
      if (!insist([&] { seek(); })) return false;
      sought_ = true;
    }
    std::optional<StreamSchema> schema;
    if (!insist([&] { schema = read_schema(); })) return false;
    if (!schema) {
      executor_.spend(std::min(patience, 10 * kGlance));
      return false;
    }
    if (!insist([&] { copy_.begin(*schema); })) return false;
    progress_.set_rows(rows_of(*schema));
    return has_schema_ = true;
  }

  /** A topic's retention may remove messages after `seek` and before the schema is read. */
  std::optional<StreamSchema> read_schema() {
    try {
      return source_.schema();
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      pause(backoff_.next());  // it may report this repeatedly
      lose_place(error);
      return std::nullopt;
    }
  }

  void take_state(SinkState there) {
    try {
      progress_.begin(std::move(there));
    } catch (const std::invalid_argument& error) {
      throw SinkError{SinkError::Kind::wrong, copy_.name() + ": " + error.what() +
                                                  " (expected a copy that this program made)"};
    }
  }

  /**
   * Continues at the copy's position. A log that has lost its schema (a topic, by retention) gets
   * the copy's schema.
   */
  void seek() {
    try {
      source_.seek(progress_.place());
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      lose_place(error);
    }
    if (progress_.copy().schema) source_.take_schema(*progress_.copy().schema);
  }

  void read(Nanoseconds patience) {
    try {
      if (auto next = source_.next(patience)) prepared_ = progress_.prepare(std::move(*next));
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      pause(backoff_.next());  // it may report this repeatedly
      lose_place(error);
    }
  }

  /** Continues at the beginning of the log: its commits show whether anything is missing. */
  void lose_place(const SinkError& error) {
    report_.last_error = error.what();
    progress_.lose_place();
    source_.seek("");
  }

  bool apply() {
    const bool gap = !prepared_->lost.empty();
    // The request comes before the write, which stores that a snapshot was requested. If this
    // process ends in between, the next one requests it again.
    if (gap && !prepared_->asked) {
      if (!insist([&] { source_.ask_for_snapshot(); })) return false;
      prepared_->asked = true;
    }
    const StepBatch& batch = prepared_->next.batch;
    try {
      if (!insist([&] { copy_.write(batch, apply::to_text(prepared_->position)); })) return false;
    } catch (const SinkError& error) {
      // The copy has a commit of a later epoch, so batches of earlier epochs do not matter.
      const bool passed = error.kind() == SinkError::Kind::overtaken;
      if (!passed && error.kind() != SinkError::Kind::lost) throw;
      if (!passed) {
        start_over(error.what());
        return false;
      }
    }
    if (gap) count_gap(prepared_->lost);
    ++report_.batches;
    report_.rows += batch.size();
    report_.bytes += batch.bytes();
    progress_.applied(std::move(*prepared_));
    // Reset only now: a batch that could not be written is written by the next call.
    prepared_.reset();
    return true;
  }

  void count_gap(const std::string& lost) {
    ++report_.gaps;
    ++report_.snapshots;
    report_.last_gap = lost;
  }

  /** Called when the copy has lost data: continues at its stored position, or at the beginning. */
  void start_over(const std::string& why) {
    ++report_.restarts;
    report_.last_error = why;
    prepared_.reset();
    has_schema_ = sought_ = asked_not_found_ = false;
    pause(backoff_.next());
  }

  void look_at_copy() {
    if (progress_.is_kept_by(copy_.state())) return;
    start_over(copy_.name() + ": it has lost commits that were written to it");
  }

  /**
   * At the end of a log that no longer has the copy's position: commits of the copy that were not
   * found are lost, together with rows, so a snapshot is requested.
   */
  std::optional<RecordSource::Left> left_of_source() {
    std::optional<RecordSource::Left> left;
    if (!insist([&] { left = look_at_source(); })) return std::nullopt;
    const auto& ranks = progress_.not_found();
    if (left->count > 0 || prepared_ || ranks.empty() || asked_not_found_) return left;
    if (!insist([&] { source_.ask_for_snapshot(); })) return std::nullopt;
    asked_not_found_ = true;
    const std::uint32_t rank = *ranks.begin();
    count_gap(source_.name() + ": the newest commit that the copy has of rank " +
              std::to_string(rank) + ", " + to_string(progress_.copy().commits.at(rank).version) +
              ", is not in what is left of the log");
    return left;
  }

  RecordSource::Left look_at_source() {
    try {
      return source_.left();
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      lose_place(error);
      return source_.left();
    }
  }

  RecordSource& source_;
  Sink& copy_;
  Executor& executor_;
  const ShippingOptions retries_;
  ship::Backoff backoff_;
  const GoOn* go_on_ = nullptr;

  bool sought_ = false, has_schema_ = false;
  apply::CopyProgress progress_;
  std::optional<apply::Prepared> prepared_;  ///< a batch that the copy does not have yet
  bool asked_not_found_ = false;  ///< a snapshot was requested for commits that were not found
  ApplyReport report_;
};

Applier::Applier(RecordSource& source, Sink& copy, Executor& executor,
                 const ShippingOptions& retries)
    : state_(std::make_unique<State>(source, copy, executor, retries)) {}

Applier::~Applier() = default;

bool Applier::apply_next(Nanoseconds patience, const GoOn& go_on) {
  return state_->apply_next(patience, go_on);
}
void Applier::flush(const GoOn& go_on) { state_->flush(go_on); }
std::optional<RecordSource::Left> Applier::left(const GoOn& go_on) { return state_->left(go_on); }
ApplyReport Applier::report() const { return state_->report(); }

}  // namespace millrace
