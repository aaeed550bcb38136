#include "millrace/streamer/applier.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

#include "apply/copy_position.hpp"
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
      : source_(source), copy_(copy), executor_(executor), retries_(retries), backoff_(retries_) {}

  bool apply_next(Nanoseconds patience, const GoOn& go_on) {
    go_on_ = &go_on;
    if (!begun_ && !begin(patience)) return false;
    std::optional<RecordSource::Next> next;
    if (!insist([&] { next = read(patience); }) || !next) return false;
    return apply(std::move(*next));
  }

  void flush(const GoOn& go_on) {
    go_on_ = &go_on;
    insist([&] { copy_.flush(); });
  }

  [[nodiscard]] ApplyReport report() const {
    ApplyReport report = report_;
    report.whole = position_.gaps.empty() && copied_.counts() && copied_.missing() == 0;
    return report;
  }

 private:
  /** @return false: it was told not to go on */
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
      const Nanoseconds end = executor_.now() + backoff_.next();
      while (executor_.now() < end && (*go_on_)()) {
        executor_.spend(std::min<Nanoseconds>(end - executor_.now(), kGlance));
      }
    }
    return false;
  }

  /** @return false: nothing was written yet, as far as can be seen */
  bool begin(Nanoseconds patience) {
    if (!sought_) {
      if (!insist([&] { copied_ = copy_.state(); })) return false;
      position_ = position_of(copied_);
      if (!insist([&] { seek(); })) return false;
      sought_ = true;
    }
    std::optional<StreamSchema> schema;
    if (!insist([&] { schema = source_.schema(); })) return false;
    if (!schema) {
      executor_.spend(std::min(patience, 10 * kGlance));
      return false;
    }
    if (!insist([&] { copy_.begin(*schema); })) return false;
    all_rows_ = rows_of(*schema);
    return begun_ = true;
  }

  [[nodiscard]] apply::CopyPosition position_of(const SinkState& there) const {
    try {
      return apply::parse_position(there.position);
    } catch (const std::invalid_argument& error) {
      throw SinkError{SinkError::Kind::wrong, copy_.name() + ": " + error.what() +
                                                  "; a copy that this program made would be right"};
    }
  }

  /** What is left is read from its beginning: its marks tell whether anything is lacking. */
  void seek() {
    try {
      source_.seek(position_.source);
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      report_.last_error = error.what();
      source_.seek("");
    }
  }

  std::optional<RecordSource::Next> read(Nanoseconds patience) {
    try {
      return source_.next(patience);
    } catch (const SinkError& error) {
      if (error.kind() != SinkError::Kind::lost) throw;
      report_.last_error = error.what();
      executor_.spend(backoff_.next());  // it may say so again and again
      source_.seek("");
      return std::nullopt;
    }
  }

  bool apply(RecordSource::Next next) {
    StepMark& mark = next.batch.mark;
    apply::CopyPosition position = position_;
    position.source = next.position;
    const bool repeat = newest_of(mark.rank) >= mark.version;
    const bool gone = is_gone(mark);
    const std::string lost = repeat || gone ? "" : what_is_lost(next);
    if (!repeat && snapshot_began(mark)) position.gaps.erase(mark.rank);
    if (mark.version.epoch >= copied_.newest_epoch()) {
      std::erase_if(position.gaps, [&](const auto& gap_of) { return gap_of.first >= mark.ranks; });
    }
    const bool gap = !lost.empty() && position.gaps.emplace(mark.rank, mark.answers).second;
    if (gone) mark.after = {};
    if (position.gaps.contains(mark.rank)) {
      mark.after = {};  // so that the copy takes it
      mark.missing = std::max(mark.missing, all_rows_);
    }
    if (gap && !insist([&] { source_.ask_for_snapshot(); })) return false;
    if (!insist([&] { copy_.write(next.batch, apply::to_text(position)); })) return false;
    if (gap) {
      ++report_.gaps;
      ++report_.snapshots;
      report_.last_gap = lost;
    }
    ++report_.batches;
    report_.rows += next.batch.size();
    report_.bytes += next.batch.bytes();
    StepMark& newest = copied_.marks[mark.rank];
    if (newest.version < mark.version) newest = mark;
    position_ = std::move(position);
    return true;
  }

  /** Whether one has since the gap: the mark that began it may be gone, compacted away. */
  [[nodiscard]] bool snapshot_began(const StepMark& mark) const {
    const auto gap = position_.gaps.find(mark.rank);
    return gap != position_.gaps.end() && (mark.after == Version{} || mark.answers != gap->second);
  }
  /** A rank that there is no more: those that came behind it have told all rows. */
  [[nodiscard]] bool is_gone(const StepMark& mark) const {
    return std::ranges::any_of(copied_.marks, [&](const auto& of_rank) {
      const StepMark& newer = of_rank.second;
      return newer.version.epoch > mark.version.epoch && newer.ranks <= mark.rank;
    });
  }
  /** What is lacking between what the copy has of the rank and what comes behind this. */
  [[nodiscard]] std::string what_is_lost(const RecordSource::Next& next) const {
    const StepMark& mark = next.batch.mark;
    const Version newest = newest_of(mark.rank);
    if (!next.lost.empty() || mark.after == Version{} || mark.after == newest) return next.lost;
    return source_.name() + ": of rank " + std::to_string(mark.rank) + " what goes after " +
           to_string(mark.after) + " follows " +
           (newest == Version{} ? "nothing" : to_string(newest));
  }
  [[nodiscard]] Version newest_of(std::uint32_t rank) const {
    const auto found = copied_.marks.find(rank);
    return found == copied_.marks.end() ? Version{} : found->second.version;
  }

  RecordSource& source_;
  Sink& copy_;
  Executor& executor_;
  const ShippingOptions retries_;
  ship::Backoff backoff_;
  const GoOn* go_on_ = nullptr;

  bool sought_ = false, begun_ = false;
  SinkState copied_;  ///< of the copy
  apply::CopyPosition position_;
  std::uint64_t all_rows_ = 0;
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
ApplyReport Applier::report() const { return state_->report(); }

}  // namespace millrace
