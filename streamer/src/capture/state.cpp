#include "capture/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "capture/succeeds.hpp"
#include "capture/wait_until.hpp"

namespace millrace {

using namespace capture;

namespace {

bool waits_itself(CaptureMode mode) {
  return mode == CaptureMode::sync || mode == CaptureMode::sync_pageable;
}

std::unordered_map<std::uint32_t, std::size_t> places_of(std::span<const std::uint32_t> tables) {
  std::unordered_map<std::uint32_t, std::size_t> places;
  for (std::size_t i = 0; i < tables.size(); ++i) places.emplace(tables[i], i);
  return places;
}

/** The tracker does not register itself, because it observes through the capture. */
TrackerOptions tracker_options(const CaptureOptions& options) {
  return {.skipped_tables = options.skipped_tables, .registers = false};
}

}  // namespace

RowCapture::State::State(const Source& source, const CaptureEnvironment& environment,
                         const CaptureOptions& options)
    : source_(source),
      place_of_(places_of(source.tables)),
      environment_(environment),
      options_(options),
      rows_(environment.context, source.bags, {options.content, options.skipped_tables}),
      tracker_({source.bags, source.tables}, {environment.context, environment.pinned},
               tracker_options(options)),
      bitmap_(tracker_.undelivered()),
      streams_(environment.context),
      shared_{SlotPool{environment, slot_layout()}, DirtyProtocol{rows_.rows()}, {}},
      gatherer_(environment, streams_, rows_),
      marker_(environment, bitmap_, gatherer_, shared_, streams_),
      copier_(source_, environment, options_, {gatherer_, streams_, shared_}),
      queue_(environment.executor, slot_layout().slots,
             [this](const Delivery& next) { copier_.handle(next); }),
      step_(source.bags.steps()) {
  const bool staged = options_.mode == CaptureMode::ring_kernel;
  if (staged) gatherer_.make_buffers(slot_layout().bytes);
  streams_.open({.gather = options_.gather_on == GatherOn::own_stream && !source_.bags.bound(),
                 .copy = staged || options_.mode == CaptureMode::ring});
  queue_.start();
}

RowCapture::State::~State() {
  try {
    stop();
  } catch (...) {  // the machine is being taken down
  }
  streams_.close();
}

SlotPool::Layout RowCapture::State::slot_layout() const {
  if (options_.slots == 0) throw std::invalid_argument{"a capture needs at least one slot"};
  if (options_.slot_bytes < rows_.least_bytes()) {
    throw std::invalid_argument{
        fmt::format("a slot of {} bytes has no room for a row of each table (expected at least {} "
                    "bytes)",
                    options_.slot_bytes, rows_.least_bytes())};
  }
  return {.mode = options_.mode,
          .slots = options_.mode == CaptureMode::mapped ? 1 : options_.slots,
          .bytes = std::min(options_.slot_bytes, rows_.most_bytes())};
}

void RowCapture::State::updated(const RowUpdate& update) {
  if (stopped_) return;
  // The tracker comes first: its consumers get the rows even if the capture fails.
  tracker_.rows_updated(update);
  shared_.counters.change([](CaptureCounts& counts) { ++counts.steps; });
  step_ = update.step;
  const bool captured = succeeds([&] {
    const StreamRef on = streams_.begin(update.stream);
    if (streams_.own()) update.record_use(on);
    capture(update, on);
  });
  if (captured) return;
  shared_.counters.failed();
  shared_.return_all();
  enqueue(delivery_of(step_));
}

void RowCapture::State::capture(const RowUpdate& update, StreamRef on) {
  marker_.apply_pending(on);
  const Delivery none = delivery_of(update.step);
  if (update.most == 0) return dirty() ? capture_dirty(none, on) : enqueue(none);

  const GatheredRows rows = rows_.of(update);
  const bool some_dirty = dirty();
  // Without two free slots, the rows of the step go through the bitmap and come with the dirty
  // ones.
  if (some_dirty && shared_.slots.count_free() < 2) {
    marker_.mark_dirty(rows.list, rows.rows, on);
    return capture_dirty(delivery_of(update.step), on);
  }
  const std::optional<std::size_t> slot = acquire(on);
  if (!slot) {
    marker_.mark_dirty(rows.list, rows.rows, on);
    shared_.counters.change([&](CaptureCounts& counts) {
      ++counts.dropped_steps;
      counts.dropped_rows += update.most;
    });
    return enqueue(delivery_of(update.step));
  }
  Delivery first = delivery_of(update.step);
  first.slot = slot;
  // The delivery of the dirty rows then ends the step.
  first.more = some_dirty;
  gather(rows, first, on);
  if (some_dirty) capture_dirty(delivery_of(update.step), on);
}

// Takes as many rows from the bitmap as can fit into a slot.
void RowCapture::State::capture_dirty(const Delivery& delivery, StreamRef on) {
  const std::optional<std::size_t> number = acquire(on);
  if (!number) return enqueue(delivery);
  Slot& slot = shared_.slots[*number];
  PickedRows picked;
  if (!marker_.pick(picked, rows_.most_rows(slot.memory().bytes), on)) {
    shared_.slots.set(slot, Slot::Stage::free);
    // The bits of these rows are already cleared, so the rows are marked again.
    if (picked.rows.rows) {
      marker_.mark_dirty(picked.rows.list(), static_cast<double>(picked.rows.most), on);
    }
    return enqueue(delivery_of(delivery.step));
  }
  shared_.counters.change([](CaptureCounts& counts) { ++counts.dirty_captures; });
  const GatheredRows rows = marker_.gathered(picked);
  Delivery next = delivery_of(delivery.step);
  next.slot = number;
  gather(rows, next, on);
}

void RowCapture::State::gather(const GatheredRows& rows, Delivery delivery, StreamRef on) {
  Slot& slot = shared_.slots[*delivery.slot];
  if (!succeeds([&] { gatherer_.gather(slot, rows, marker_.bits(), on); })) {
    leave_dirty(slot, rows, on);
    return enqueue_without_rows(delivery);
  }
  shared_.counters.change([](CaptureCounts& counts) { ++counts.captures; });
  shared_.slots.begin_gather(slot, shared_.dirty.gathered(), rows.list.most);
  marker_.expect(slot, rows);
  if (!finish_gather(slot, rows, on)) return enqueue_without_rows(delivery);
  shared_.slots.set(slot, waits_itself(options_.mode) ? Slot::Stage::ready : Slot::Stage::copying);
  enqueue(delivery);
}

// Records the event of the enqueued gather, and fetches the rows if the training thread must do
// that. On failure the rows come later: with `ring_kernel` they are marked from the list, otherwise
// from the slot.
bool RowCapture::State::finish_gather(Slot& slot, const GatheredRows& rows, StreamRef on) {
  bool done = succeeds([&] { streams_.ordered().record(slot.gathered, on); });
  if (done) {
    streams_.gathered(slot.gathered);
    if (waits_itself(options_.mode)) done = fetch_and_wait(slot, on);
  }
  if (options_.mode == CaptureMode::ring_kernel) {
    if (done && succeeds([&] { gatherer_.drain(slot, rows); })) return true;
    leave_dirty(slot, rows, on);
    return false;
  }
  if (done) return true;
  shared_.counters.failed();
  shared_.return_slot(slot, slot.listed);
  return false;
}

void RowCapture::State::leave_dirty(Slot& slot, const GatheredRows& rows, StreamRef on) {
  shared_.counters.failed();
  shared_.slots.set(slot, Slot::Stage::free);
  marker_.mark_dirty(rows.list, rows.rows, on);
}

bool RowCapture::State::fetch_and_wait(Slot& slot, StreamRef on) {
  const Nanoseconds from = environment_.executor.now();
  Gatherer::Copied copied;
  const bool fetched = succeeds([&] { copied = gatherer_.fetch(slot, on); });
  shared_.counters.change([&](CaptureCounts& counts) {
    counts.copied_bytes += copied.bytes;
    counts.copying += copied.time;
  });
  shared_.counters.waited(environment_.executor.now() - from);
  return fetched;
}

void RowCapture::State::will_move(StreamRef stream) {
  const int failed = streams_.before_move(stream);
  if (failed > 0) shared_.counters.failed();
  if (failed > 1) shared_.slots.tear_copying();
}

std::uint64_t RowCapture::State::mark_dirty(std::span<const TableRow> rows) {
  std::vector<std::uint64_t> ids;
  const auto views = source_.bags.tables();
  for (const TableRow& row : rows) {
    const auto found = place_of_.find(row.table);
    if (found == place_of_.end()) continue;
    const TableView& view = views[found->second];
    // Requests name rows of whole tables. Rows of another rank's shard are captured by that rank.
    const std::int64_t here = row.row - view.row_of_whole;
    if (here < 0 || here >= static_cast<std::int64_t>(view.rows)) continue;
    ids.push_back(static_cast<std::uint64_t>(view.first_row + here));
  }
  return shared_.dirty.request(ids);
}

void RowCapture::State::capture_dirty(std::uint64_t step, StreamRef stream) {
  if (stopped_) return;
  shared_.counters.change([](CaptureCounts& counts) { ++counts.steps; });
  step_ = step;
  const bool captured = succeeds([&] {
    const StreamRef on = streams_.begin(stream);
    marker_.apply_pending(on);
    dirty() ? capture_dirty(delivery_of(step), on) : enqueue(delivery_of(step));
  });
  if (captured) return;
  shared_.counters.failed();
  enqueue(delivery_of(step));
}

bool RowCapture::State::flush(StreamRef stream, Nanoseconds patience) {
  Executor& executor = environment_.executor;
  const Nanoseconds from = executor.now();
  const auto left = [&] { return patience - (executor.now() - from); };
  for (std::size_t rounds = 0;; ++rounds) {
    if (!queue_.wait_idle(patience == Nanoseconds::max() ? patience : left())) return false;
    if (!dirty()) return true;
    if (stopped_ || (rounds > 0 && left() <= Nanoseconds{0})) return false;
    const bool enqueued = succeeds([&] {
      const StreamRef on = streams_.begin(stream);
      marker_.apply_pending(on);
      for (std::size_t captures = captures_left(); captures > 0; --captures) {
        capture_dirty(delivery_of(step_), on);
      }
    });
    if (!enqueued) shared_.counters.failed();
    // Rows that are refused or fail again and again must not block the others.
    if (rounds > 8) executor.spend(std::chrono::microseconds{100});
  }
}

// Returns the captures that the dirty rows need, at most the free slots. The queue must be idle.
std::size_t RowCapture::State::captures_left() {
  const std::size_t rows = rows_.most_rows(shared_.slots[0].memory().bytes);
  return std::clamp<std::uint64_t>(shared_.dirty.missing_now() / rows, 1,
                                   std::max<std::size_t>(shared_.slots.count_free(), 1));
}

void RowCapture::State::stop() {
  if (!stopped_.exchange(true)) queue_.stop();
}

std::optional<std::size_t> RowCapture::State::acquire(StreamRef on) {
  std::optional<std::size_t> slot = take_slot(on);
  if (!slot) slot = make_slot(on);
  if (slot || options_.when_full != WhenFull::block || options_.patience <= Nanoseconds{0}) {
    return slot;
  }
  Executor& executor = environment_.executor;
  const Nanoseconds from = executor.now();
  static_cast<void>(
      wait_until(executor, options_.patience, [&] { return (slot = take_slot(on)).has_value(); }));
  shared_.counters.waited(executor.now() - from);
  return slot;
}

std::optional<std::size_t> RowCapture::State::take_slot(StreamRef on) {
  const std::optional<SlotPool::Taken> taken = shared_.slots.take();
  if (!taken) return {};
  Slot& slot = shared_.slots[taken->number];
  const bool usable = succeeds([&] {
    if (slot.unsure) {
      Event copied;
      streams_.ordered().record(copied, *streams_.copy());
      streams_.ordered().wait(on, copied);
      slot.unsure = false;
    }
    if (taken->returning) marker_.mark_returned(slot, on);
  });
  if (!usable) {
    shared_.counters.failed();
    if (!taken->returning) shared_.slots.set(slot, Slot::Stage::free);
    return {};
  }
  shared_.slots.set(slot, Slot::Stage::gathering);
  return taken->number;
}

// The host is further ahead of the device than ever: makes another slot, if allowed.
std::optional<std::size_t> RowCapture::State::make_slot(StreamRef on) {
  std::optional<std::size_t> made;
  const bool done = succeeds([&] { made = shared_.slots.make([&] { streams_.memory_made(on); }); });
  if (!done) shared_.counters.failed();
  return made;
}

Delivery RowCapture::State::delivery_of(std::uint64_t step) const {
  return {.step = step, .dirty = shared_.dirty.point()};
}

void RowCapture::State::enqueue_without_rows(const Delivery& delivery) {
  if (!delivery.more) enqueue(delivery_of(delivery.step));
}

}  // namespace millrace
