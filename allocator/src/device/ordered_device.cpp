#include "millrace/device/ordered_device.hpp"

#include <mutex>
#include <stdexcept>
#include <utility>

#include "device/ordered_device_state.hpp"
#include "device/thread_lists.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/device/stream.hpp"

namespace millrace {

void OrderedDevice::State::complete(Point marker) {
  ThreadLists* const lists = ThreadLists::of_this_thread();
  if (lists == nullptr) return release(ledger.complete(marker));
  lists->done.clear();
  ledger.complete(marker, lists->done);
  release(lists->done);
}

bool OrderedDevice::State::learn_complete(Point point) const {
  if (!ledger.completed(point)) return false;
  device.learn_completions();
  return true;
}

void OrderedDevice::State::refuse_other_threads(StreamRef stream) const {
  if (stream.handle() != per_thread) [[likely]]
    return;
  if (streams.is(stream.id(), device.stream_id(per_thread))) return;
  throw DeviceError{ErrorCode::invalid_argument, "the per-thread stream of another thread",
                    "only that thread can record, wait or synchronize there"};
}

void OrderedDevice::State::refuse_reused_handle(StreamRef stream) {
  const std::uint64_t driver_id = device.stream_id(stream.handle());
  if (streams.is(stream.id(), driver_id)) [[likely]]
    return;
  // Closes the destroyed stream, so that later calls do not find it.
  streams.resolve(stream.handle(), driver_id, stream.handle() == device.legacy_stream());
  throw DeviceError{ErrorCode::invalid_argument, "mark",
                    "the stream was destroyed, and another one has its handle"};
}

void OrderedDevice::State::record_wanted(StreamRef stream) {
  KnownStream* const known = streams.find(stream.id());
  if (known == nullptr || !known->wanted_mark.load(std::memory_order_relaxed)) [[likely]]
    return;
  if (in_host_callback() || !known->wanted_mark.exchange(false)) return;
  try {
    record_if_there(stream);
  } catch (const DeviceError& error) {  // the call itself reports the error
    if (error.code() == ErrorCode::capture) known->wanted_mark = true;  // retried after the capture
  }
}

Point OrderedDevice::State::record_mark(StreamRef stream, Event* kept) {
  const Point marker = record_if_there(stream, kept);
  if (marker.marker != 0) return marker;
  if (captured(stream.id())) {
    throw DeviceError{ErrorCode::capture, "record", "the stream is being captured"};
  }
  throw DeviceError{ErrorCode::invalid_argument, "record", "the stream has been detached"};
}

Point OrderedDevice::State::record_if_there(StreamRef stream, Event* kept, Untold captures) {
  KnownStream* known = streams.find(stream.id());
  if (known == nullptr) return {};
  const std::lock_guard held{known->recording};
  if (streams.find(stream.id()) == nullptr || known->captured != 0) return {};
  if (captures == Untold::asked && device.capture_status(stream.handle()) != CaptureStatus::none) {
    return {};
  }
  Event mark = pool->take();
  if (kept != nullptr) *kept = mark;
  return record_held(*known, stream, std::move(mark));
}

Point OrderedDevice::State::record_held(KnownStream& known, StreamRef stream, Event mark) {
  if (known.captured != 0) {
    throw DeviceError{ErrorCode::capture, "record", "the stream is being captured"};
  }
  ledger.begin_record(stream.id(), known.record);
  const Point point = known.record.point;
  mark.mark_->point = point;
  device.record(mark.mark_->event, stream.handle());
  const MarkerToken token = MarkPool::token(mark);
  try {
    // 0: the stream is closed and complete, and the ledger did not keep the token.
    if (ledger.publish_record(std::move(known.record), token) == 0) return point;
  } catch (...) {
    // Out of host memory. If the ledger has the token, it still returns it. If not, the mark's
    // event is lost, because nothing tells the two cases apart.
    MarkPool::hand_over(mark);
    throw;
  }
  MarkPool::hand_over(mark);
  return point;
}

// The stream can be detached between the checks. Its last marker then covers the point.
Event OrderedDevice::State::covering_mark(Point point) {
  if (const auto marker = ledger.earliest_covering(point)) return pool->find(marker->token);
  if (ledger.completed(point)) return {};
  const auto handle = streams.handle(point.stream);
  if (!handle) return {};
  Event mark;
  if (record_if_there(StreamRef{*handle, point.stream}, &mark).marker != 0) return mark;
  const auto last = ledger.earliest_covering(point);  // left by a detached stream
  return last ? pool->find(last->token) : Event{};
}

Event OrderedDevice::State::newest_record(EventHandle event) {
  const std::lock_guard lock{mutex};
  const auto it = foreign.find(event.value);
  return it == foreign.end() ? Event{} : it->second->newest;
}

void OrderedDevice::State::withdraw(const Event& record) {
  if (!record.recorded()) return;
  if (const auto token = ledger.withdraw(record.point())) pool->release(*token);
}

// `record` withdraws the marker before it calls the driver. So a marker that is not withdrawn yet
// was the event's newest record during the call.
bool OrderedDevice::State::still_recorded(const Event& mark) const {
  if (mark.mark_->event == mark.mark_->own) return true;
  const auto marker = ledger.earliest_covering(mark.point());
  return (marker && marker->point == mark.point()) || ledger.completed(mark.point());
}

void OrderedDevice::State::pay_owed_marks() {
  if (owed.empty() || in_host_callback()) return;
  owed.pay(streams, [&](StreamId stream) {
    KnownStream* const known = streams.find(stream);
    if (known != nullptr && owe_after_capture(*known)) return;
    const auto handle = streams.handle(stream);
    if (!handle) return;
    try {
      record_if_there(StreamRef{*handle, stream});
    } catch (const DeviceError& error) {
      if (error.code() != ErrorCode::capture || known == nullptr) throw;
      owed.add(*known, stream);  // other code captures the stream
    }
  });
}

OrderedDevice::OrderedDevice(Device& device, Completion completion)
    : state_(std::make_unique<State>(device, completion)) {}
OrderedDevice::~OrderedDevice() = default;

Device& OrderedDevice::device() const noexcept { return state_->device; }
const Ledger& OrderedDevice::ledger() const noexcept { return state_->ledger; }
Completion OrderedDevice::completion() const noexcept { return state_->completion; }

StreamRef OrderedDevice::attach(StreamHandle stream, AttachOptions options) {
  if (stream == state_->per_thread) {
    throw std::invalid_argument{
        "attach: the per-thread stream is another one on each thread; pass its handle as it is"};
  }
  const std::uint64_t driver_id = state_->device.stream_id(stream);
  const bool legacy = stream == state_->device.legacy_stream();
  if (legacy) state_->legacy_attached = true;
  const StreamTraits traits{.legacy = legacy,
                            .blocking = legacy || state_->device.blocking(stream),
                            .independent = options.independent};
  return {stream, state_->streams.attach(stream, driver_id, traits, std::move(options.name))};
}

void OrderedDevice::detach(StreamRef stream) {
  KnownStream* known = state_->streams.find(stream.id());
  const std::unique_lock held =
      known == nullptr ? std::unique_lock<Mutex>{} : std::unique_lock{known->recording};
  if (!attached(stream.id())) throw std::invalid_argument{"detach: this stream is not attached"};
  try {
    if (state_->has_many_markers()) state_->ask_some();
    const Point last = state_->record_held(*known, stream, state_->pool->take());
    state_->streams.close(stream.id(), last.marker);
  } catch (const DeviceError&) {
    state_->streams.close(stream.id(), 0);
    throw;
  }
}

StreamRef OrderedDevice::resolve(StreamRef stream) {
  if (stream.id().valid()) {
    state_->refuse_other_threads(stream);
    return stream;
  }
  const bool legacy = stream.handle() == state_->device.legacy_stream();
  if (legacy && !state_->legacy_attached.load(std::memory_order_acquire)) {
    const StreamId known = state_->legacy.load(std::memory_order_relaxed);
    if (known.valid() && state_->streams.find(known) != nullptr) {  // not detached
      stream = {stream.handle(), known};
      state_->record_wanted(stream);
      return stream;
    }
  }
  if (state_->captures.load(std::memory_order_relaxed) != 0) {  // the driver must not be asked
    const std::lock_guard lock{state_->mutex};
    const auto it = state_->captured_handles.find(stream.handle().value);
    if (it != state_->captured_handles.end()) return {stream.handle(), it->second.stream};
  }
  const std::uint64_t driver_id = state_->device.stream_id(stream.handle());
  stream = {stream.handle(), state_->streams.resolve(stream.handle(), driver_id, legacy)};
  if (legacy) state_->legacy.store(stream.id(), std::memory_order_relaxed);
  state_->record_wanted(stream);
  return stream;
}

bool OrderedDevice::attached(StreamId stream) const { return state_->streams.attached(stream); }

std::string OrderedDevice::name(StreamId stream) const { return state_->streams.name(stream); }

Point OrderedDevice::mark(StreamRef stream) {
  const bool was_kept = stream.id().valid();
  stream = resolve(stream);
  if (in_host_callback()) {
    if (KnownStream* known = state_->streams.find(stream.id())) {
      state_->owed.add(*known, stream.id());
    }
    return {stream.id(), state_->ledger.next(stream.id())};
  }
  KnownStream* const known = state_->streams.find(stream.id());
  if (known != nullptr && state_->owe_after_capture(*known)) {
    return {stream.id(), state_->ledger.next(stream.id())};
  }
  tend();
  if (was_kept && known != nullptr && !known->attached) state_->refuse_reused_handle(stream);
  return state_->record_mark(stream);
}

std::optional<Point> OrderedDevice::cover(Point point) {
  const Ledger& ledger = state_->ledger;
  if (!state_->polls()) return {};
  if (in_host_callback() || ledger.completed(point) || ledger.earliest_covering(point)) return {};
  const auto handle = state_->streams.handle(point.stream);
  if (!handle) {
    if (KnownStream* const raw = state_->streams.find(point.stream)) raw->wanted_mark = true;
    return {};
  }
  tend();
  const Point marker =
      state_->record_if_there(StreamRef{*handle, point.stream}, nullptr, State::Untold::asked);
  return marker.marker != 0 ? std::optional{marker} : std::nullopt;
}

void OrderedDevice::record(Event& event, StreamRef stream) {
  tend();
  Event mark;
  state_->record_mark(resolve(stream), &mark);
  event = std::move(mark);
}

void OrderedDevice::wait(StreamRef stream, const Event& event) {
  if (!event.recorded()) return;
  stream = resolve(stream);
  state_->device.wait(stream.handle(), event.mark_->event);
  state_->ledger.join(stream.id(), event.point());
}

bool OrderedDevice::query(const Event& event) {
  if (!event.recorded()) return true;
  if (!state_->device.query(event.mark_->event)) return false;
  if (state_->polls()) state_->complete(event.point());
  return true;
}

void OrderedDevice::synchronize(const Event& event) {
  if (!event.recorded()) return;
  state_->device.synchronize(event.mark_->event);
  state_->complete(event.point());
}

void OrderedDevice::record(EventHandle event, StreamRef stream) {
  stream = resolve(stream);
  std::shared_ptr<State::ForeignEvent> known_event;
  {
    const std::lock_guard lock{state_->mutex};
    auto& entry = state_->foreign[event.value];
    if (entry == nullptr) entry = std::make_shared<State::ForeignEvent>();
    known_event = entry;
  }
  const std::lock_guard recording{known_event->recording};
  Event earlier;
  {
    const std::lock_guard lock{state_->mutex};
    earlier = std::exchange(known_event->newest, {});
  }
  // Earlier waits keep the earlier marker, but later ones must not use it for this event.
  state_->withdraw(earlier);
  KnownStream* known = state_->streams.find(stream.id());
  const std::unique_lock held =
      known == nullptr ? std::unique_lock<Mutex>{} : std::unique_lock{known->recording};
  if (state_->streams.find(stream.id()) == nullptr) {
    throw DeviceError{ErrorCode::invalid_argument, "record", "the stream has been detached"};
  }
  Event mark = state_->pool->take(event);
  state_->record_held(*known, stream, mark);
  const std::lock_guard lock{state_->mutex};
  known_event->newest = std::move(mark);
}

// Another thread may record the event again while the driver is called. The stream then waits for
// one of the two records, and it is unknown for which, so no order is noted.
void OrderedDevice::wait(StreamRef stream, EventHandle event) {
  stream = resolve(stream);
  const Event before = state_->newest_record(event);
  state_->device.wait(stream.handle(), event);
  if (!before.recorded() || state_->newest_record(event).point() != before.point()) return;
  state_->ledger.join(stream.id(), before.point());
}

void OrderedDevice::forget(EventHandle event) {
  Event newest;
  {
    const std::lock_guard lock{state_->mutex};
    const auto it = state_->foreign.find(event.value);
    if (it == state_->foreign.end()) return;
    newest = std::exchange(it->second->newest, {});
    state_->foreign.erase(it);
  }
  state_->withdraw(newest);
}

void OrderedDevice::synchronize(StreamRef stream) {
  stream = resolve(stream);
  const Frontier all = state_->ledger.begin_synchronize(stream.id());
  state_->device.synchronize(stream.handle());
  state_->complete(all);
}

void OrderedDevice::synchronize() {
  if (state_->captures != 0) {
    throw DeviceError{ErrorCode::capture, "synchronize", "a stream is being captured"};
  }
  const Frontier all = state_->ledger.begin_synchronize();
  state_->device.synchronize();
  state_->complete(all);
}

std::optional<std::uint64_t> OrderedDevice::earliest_wait(StreamId waiter, Point point) const {
  const Ledger& ledger = state_->ledger;
  if (ledger.ordered(point, waiter)) return 0;
  if (ledger.traits(waiter).independent || ledger.traits(point.stream).independent) return {};
  if (state_->captured(waiter)) return {};
  if (const auto marker = ledger.earliest_covering(point)) return marker->serial;
  // The marker that covered the point may have become complete since the first check.
  if (ledger.ordered(point, waiter)) return 0;
  const bool can_record = attached(point.stream) && !state_->captured(point.stream);
  if (can_record && !in_host_callback()) return kTail;
  return {};
}

std::uint64_t OrderedDevice::newest_marker() const { return state_->ledger.newest_serial(); }

bool OrderedDevice::wait_for(StreamRef waiter, Point point) {
  waiter = resolve(waiter);
  const auto when = earliest_wait(waiter.id(), point);
  if (!when) return false;
  const Event mark = *when == 0 ? Event{} : state_->covering_mark(point);
  // The point may have become complete since `earliest_wait`. Then no wait is needed.
  if (!mark.recorded()) {
    const bool ordered = *when == 0 || state_->ledger.ordered(point, waiter.id());
    state_->learn_complete(point);
    return ordered;
  }
  try {
    state_->device.wait(waiter.handle(), mark.mark_->event);
  } catch (const DeviceError& error) {
    if (error.code() == ErrorCode::capture) return false;  // a capture that was not announced
    throw;
  }
  if (!state_->still_recorded(mark)) return wait_for(waiter, point);
  state_->ledger.join(waiter.id(), mark.point());
  return true;
}

bool OrderedDevice::synchronize(Point point) {
  if (state_->learn_complete(point)) return true;
  const Event mark = state_->covering_mark(point);
  if (!mark.recorded()) return state_->learn_complete(point);
  state_->device.synchronize(mark.mark_->event);
  if (!state_->still_recorded(mark)) return synchronize(point);
  state_->complete(mark.point());
  return true;
}

}  // namespace millrace
