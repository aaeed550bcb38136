#include "capture/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "capture/succeeds.hpp"

namespace millrace {

using namespace capture;

namespace {

bool waits_itself(CaptureWay way) {
  return way == CaptureWay::sync || way == CaptureWay::sync_pageable;
}

bool is_ring(CaptureWay way) { return way == CaptureWay::ring || way == CaptureWay::ring_kernel; }

std::unordered_map<std::uint32_t, std::size_t> places_of(std::span<const std::uint32_t> tables) {
  std::unordered_map<std::uint32_t, std::size_t> places;
  for (std::size_t i = 0; i < tables.size(); ++i) places.emplace(tables[i], i);
  return places;
}

std::uint64_t whole(double rows) { return static_cast<std::uint64_t>(std::ceil(rows)); }

}  // namespace

Capture::State::State(const Source& source, const Setting& setting, const CaptureOptions& options)
    : source_(source),
      place_of_(places_of(source.tables)),
      setting_(setting),
      options_(options),
      context_(setting.context),
      ordered_(context_.allocator().device()),
      rows_(context_, source.bags, {options.content, options.skipped_tables}),
      dirty_(context_, rows_.rows(), source.bags.row_type()),
      step_(source.bags.steps()),
      changed_(setting.executor.make_condition()) {
  if (source_.tables.size() != source_.bags.tables().size()) {
    throw std::invalid_argument{fmt::format("numbers of {} tables are given, of {}",
                                            source_.tables.size(), source_.bags.tables().size())};
  }
  make_slots();
  Stream& main = context_.main();
  ordered_.record(made_, main);
  last_ = made_;
  used_on_.push_back(main.id());
  if (options_.gather_on == GatherOn::own_stream && !source_.bags.bound()) {
    own_.emplace(ordered_, StreamOptions{.name = "gather"});
  }
  if (is_ring(options_.way)) copy_.emplace(ordered_, StreamOptions{.name = "capture"});
  copier_ = setting_.executor.spawn("copier", [this] { run(); });
}

Capture::State::~State() {
  try {
    stop();
  } catch (...) {  // the machine is being taken down
  }
  static_cast<void>(succeeds([&] {
    context_.main().wait(last_);
    if (own_) context_.main().wait_stream(*own_);
    if (copy_) context_.main().wait_stream(*copy_);
  }));
}

// The stream to enqueue on, ordered behind `stream`.
StreamRef Capture::State::begin(StreamRef stream) {
  if (own_) {
    Event updated;
    ordered_.record(updated, stream);
    own_->wait(updated);
    stream = *own_;
  }
  if (std::ranges::find(used_on_, stream.id()) == used_on_.end()) {
    ordered_.wait(stream, made_);
    if (stream.id().valid()) used_on_.push_back(stream.id());
  }
  return stream;
}

void Capture::State::updated(const RowUpdate& update) {
  {
    const std::lock_guard lock{mutex_};
    if (stopped_) return;
    ++counts_.steps;
  }
  step_ = update.step;
  const bool captured = succeeds([&] {
    const StreamRef on = begin(update.stream);
    if (own_) update.record_use(on);
    capture(update, on);
  });
  if (captured) return;
  failed();
  everything();
  tell(telling(step_));
}

void Capture::State::capture(const RowUpdate& update, StreamRef on) {
  apply_marks(on);
  const Telling told = telling(update.step);
  if (update.most == 0) return dirty() ? capture_dirty(told, on) : tell(told);

  const GatheredRows rows = rows_.of(update);
  const bool some_dirty = dirty();
  if (some_dirty && free_slots() < 2) {
    mark_list(rows.list, rows.rows, on);
    return capture_dirty(telling(update.step), on);
  }
  const std::optional<std::size_t> slot =
      acquire(on, options_.when_full == WhenFull::block ? options_.patience : Nanoseconds{0});
  if (!slot) {
    mark_list(rows.list, rows.rows, on);
    {
      const std::lock_guard lock{mutex_};
      ++counts_.dropped_steps;
      counts_.dropped_rows += update.most;
    }
    return tell(telling(update.step));
  }
  Telling first = telling(update.step);
  first.more = some_dirty;
  gather(*slot, rows, first, on);
  if (some_dirty) capture_dirty(telling(update.step), on);
}

// Takes rows from the bitmap, as many as may fit.
void Capture::State::capture_dirty(const Telling& told, StreamRef on) {
  const std::optional<std::size_t> number =
      acquire(on, options_.when_full == WhenFull::block ? options_.patience : Nanoseconds{0});
  if (!number) return tell(told);
  Slot& slot = slots_[*number];
  DirtyRows::Collected collected;
  Array<std::int32_t> slots;
  const bool there = succeeds([&] {
    collected = dirty_.collect(rows_.most_rows(slot.memory().bytes), on);
    slots = source_.bags.locate(collected.rows.data(), collected.most, collected.count.data(), on);
  });
  if (!there) {
    failed();
    set_stage(slot, Slot::Stage::free);
    if (collected.rows) mark_list(collected.list(), static_cast<double>(collected.most), on);
    return tell(telling(told.step));
  }
  double expected = 0;
  {
    const std::lock_guard lock{mutex_};
    ++counts_.dirty_captures;
    expected = static_cast<double>(missing_);
  }
  if (context_.cost_only()) expected = std::exchange(modelled_missing_, 0);
  GatheredRows rows = rows_.of(collected.list(), expected);
  if (context_.cost_only()) modelled_missing_ = expected - rows.rows;
  rows.slots = slots.data();
  gather(*number, rows, telling(told.step), on);
}

void Capture::State::gather(std::size_t number, const GatheredRows& rows, Telling told,
                            StreamRef on) {
  Slot& slot = slots_[number];
  const bool gathered =
      succeeds([&] { rows_.gather(rows, gathered_into(slot, on), dirty_, setting_.pinned, on); });
  if (!gathered) return give_up(slot, rows, told, on);
  {
    const std::lock_guard lock{mutex_};
    ++counts_.captures;
    slot.sequence = ++sequence_;
    slot.torn = false;
    slot.listed = rows.list.most;
  }
  expect(slot, rows);
  bool there = succeeds([&] { ordered_.record(slot.gathered, on); });
  if (there) {
    last_ = slot.gathered;
    if (own_) unwaited_ = slot.gathered;
    if (waits_itself(options_.way)) there = copy_and_wait(slot, on);
    if (options_.way == CaptureWay::ring_kernel && !drain(slot, rows)) {
      return give_up(slot, rows, told, on);
    }
  }
  if (!there && options_.way == CaptureWay::ring_kernel) return give_up(slot, rows, told, on);
  if (!there) {
    failed();
    return_slot(slot, slot.listed);
    if (!told.more) tell(telling(told.step));
    return;
  }
  set_stage(slot, waits_itself(options_.way) ? Slot::Stage::ready : Slot::Stage::copying);
  told.slot = number;
  tell(told);
}

// Its rows are not in it: they are told later.
void Capture::State::give_up(Slot& slot, const GatheredRows& rows, const Telling& told,
                             StreamRef on) {
  failed();
  set_stage(slot, Slot::Stage::free);
  mark_list(rows.list, rows.rows, on);
  if (!told.more) tell(telling(told.step));
}

SlotMemory Capture::State::gathered_into(Slot& slot, StreamRef on) {
  if (options_.way != CaptureWay::ring_kernel) return slot.memory();
  staging_ = (staging_ + 1) % stagings_.size();
  Staging& staging = stagings_[staging_];
  if (staging.unsure) {
    ordered_.record(staging.drained, *copy_);
    staging.unsure = false;
  }
  if (staging.drained.recorded()) ordered_.wait(on, staging.drained);
  return staging.memory();
}

bool Capture::State::drain(Slot& slot, const GatheredRows& rows) {
  Staging& staging = stagings_[staging_];
  staging.unsure = slot.unsure = true;  // until the copy has an event behind it
  return succeeds([&] {
    copy_->wait(slot.gathered);
    rows_.drain(rows, staging.memory(), slot.memory(), *copy_);
    ordered_.record(slot.drained, *copy_);
    staging.drained = slot.drained;
    staging.unsure = slot.unsure = false;
  });
}

// What the header will say, where no kernel writes one.
void Capture::State::expect(Slot& slot, const GatheredRows& rows) {
  if (!context_.cost_only()) return;
  const std::size_t capacity = slot.memory().bytes - rows_.header_bytes();
  const double row =
      rows.rows > 0 ? rows.bytes / rows.rows + static_cast<double>(size_of(source_.bags.row_type()))
                    : 1;
  const double all = std::round(rows.rows);
  const double fit = std::min(all, std::floor(static_cast<double>(capacity) / row));
  modelled_missing_ += all - fit;
  slot.expected = {.rows = static_cast<std::uint32_t>(fit),
                   .bytes = rows_.header_bytes() + static_cast<std::uint64_t>(fit * row),
                   .overflowed = whole(all - fit),
                   .missing = whole(modelled_missing_)};
  slot.expected_numbers =
      rows.rows > 0 ? static_cast<std::uint64_t>(std::llround(fit * rows.bytes / rows.rows)) : 0;
}

bool Capture::State::copy_and_wait(Slot& slot, StreamRef on) {
  const Nanoseconds from = setting_.executor.now();
  const bool copied = succeeds([&] { copy_to_host(slot, on); });
  const std::lock_guard lock{mutex_};
  ++counts_.waits;
  counts_.waited += setting_.executor.now() - from;
  return copied;
}

void Capture::State::will_move(StreamRef stream) {
  if (!unwaited_) return;
  const Event gathered = *std::exchange(unwaited_, std::nullopt);
  if (succeeds([&] { ordered_.wait(stream, gathered); })) return;
  failed();
  if (succeeds([&] { ordered_.synchronize(gathered); })) return;
  const std::lock_guard lock{mutex_};
  for (Slot& slot : slots_) slot.torn = slot.torn || slot.stage == Slot::Stage::copying;
}

void Capture::State::tell_dirty(std::uint64_t step, StreamRef stream) {
  {
    const std::lock_guard lock{mutex_};
    if (stopped_) return;
    ++counts_.steps;
  }
  step_ = step;
  const bool captured = succeeds([&] {
    const StreamRef on = begin(stream);
    apply_marks(on);
    dirty() ? capture_dirty(telling(step), on) : tell(telling(step));
  });
  if (captured) return;
  failed();
  tell(telling(step));
}

bool Capture::State::flush(StreamRef stream, Nanoseconds patience) {
  const Nanoseconds from = setting_.executor.now();
  const auto left = [&] { return patience - (setting_.executor.now() - from); };
  for (std::size_t rounds = 0;; ++rounds) {
    if (!wait_until_told(patience == Nanoseconds::max() ? patience : left())) return false;
    if (!dirty()) return true;
    if (ended() || (rounds > 0 && left() <= Nanoseconds{0})) return false;
    const bool enqueued = succeeds([&] {
      const StreamRef on = begin(stream);
      apply_marks(on);
      for (std::size_t captures = captures_left(); captures > 0; --captures) {
        capture_dirty(telling(step_), on);
      }
    });
    if (!enqueued) failed();
    // What is refused, or fails, again and again leaves others their turn.
    if (rounds > 8) setting_.executor.spend(std::chrono::microseconds{100});
  }
}

bool Capture::State::ended() const {
  const std::lock_guard lock{mutex_};
  return stopped_;
}

// As many as dirty rows need, and slots allow; all that was told is known.
std::size_t Capture::State::captures_left() const {
  const std::size_t rows = rows_.most_rows(slots_.front().memory().bytes);
  std::uint64_t missing = 0;
  {
    const std::lock_guard lock{mutex_};
    missing = missing_ + (marked_ - marked_at_header_);
  }
  return std::clamp<std::uint64_t>(missing / rows, 1, std::max<std::size_t>(free_slots(), 1));
}

bool Capture::State::wait_until_told(Nanoseconds patience) {
  std::unique_lock lock{mutex_};
  const auto told = [&] { return queue_.empty() && !busy_; };
  if (patience == Nanoseconds::max()) {
    while (!told()) changed_->wait(lock);
    return true;
  }
  lock.unlock();
  return wait_until(
      [&] {
        const std::lock_guard asking{mutex_};
        return told();
      },
      patience);
}

void Capture::State::stop() {
  {
    const std::lock_guard lock{mutex_};
    if (std::exchange(stopped_, true)) return;
  }
  {
    std::unique_lock lock{mutex_};
    while (!queue_.empty() || busy_) changed_->wait(lock);
    ending_ = true;
  }
  changed_->notify_all();
  copier_->join();
}

Capture::State::Telling Capture::State::telling(std::uint64_t step) const {
  const std::lock_guard lock{mutex_};
  return {.step = step, .marks = calls_applied_, .marked = marked_, .returned = returned_applied_};
}

// Of steps without rows in a row the last one stands for all of them.
void Capture::State::tell(const Telling& told) {
  {
    const std::lock_guard lock{mutex_};
    if (!told.slot && !queue_.empty() && !queue_.back().slot) {
      queue_.back() = told;
    } else {
      queue_.push_back(told);
    }
    setting_.executor.released(this);
  }
  changed_->notify_all();
}

}  // namespace millrace
