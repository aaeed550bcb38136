#include "millrace/device/ordered_device.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/event_pool.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/device/stream.hpp"

namespace millrace {

namespace {

// Markers kept before recording one more asks the device about the oldest ones.
constexpr std::size_t kOutstandingBeforePoll = 256;

}  // namespace

struct OrderedDevice::State {
  struct StreamInfo {
    StreamHandle handle;
    std::string name;
    std::uint64_t driver_id = 0;
    bool attached = false;
    /** Held while a marker is recorded there, by whomever: until then the stream is not let go. */
    std::shared_ptr<Mutex> recording = std::make_shared<Mutex>();
  };

  /** @brief What waiters on a caller's own event get: its latest recording through us. */
  struct ForeignEvent {
    Point point;
    Frontier snapshot;
  };

  explicit State(Device& d)
      : device(d), pool(std::make_shared<EventPool>(d)), per_thread(d.per_thread_stream()) {}

  Device& device;
  Ledger ledger;
  std::shared_ptr<EventPool> pool;
  const StreamHandle per_thread;  // on each thread the handle of another stream

  std::mutex mutex;  // of everything below; never held across a driver call
  std::unordered_map<std::uint64_t, StreamId> by_driver_id;
  std::unordered_map<StreamId, StreamInfo> streams;
  std::unordered_map<MarkerToken, std::shared_ptr<Event::Mark>> outstanding;
  std::unordered_map<void*, ForeignEvent> foreign;
  std::size_t poll_beyond = kOutstandingBeforePoll;
  std::uint64_t serial = 0;    // of marks, over all streams
  std::vector<StreamId> owed;  // marks asked for inside a host callback

  static MarkerToken token(EventHandle event) { return reinterpret_cast<MarkerToken>(event.value); }

  StreamId open_locked(const StreamInfo& info, const StreamTraits& traits) {
    const StreamId id = ledger.open(traits);
    by_driver_id[info.driver_id] = id;
    streams[id] = info;
    return id;
  }

  void retire(const std::vector<MarkerToken>& tokens) {
    std::vector<std::shared_ptr<Event::Mark>> dropped;  // freed outside the lock
    const std::lock_guard lock{mutex};
    for (const MarkerToken t : tokens) {
      if (const auto it = outstanding.find(t); it != outstanding.end()) {
        dropped.push_back(std::move(it->second));
        outstanding.erase(it);
      }
    }
  }

  void complete(const Frontier& frontier) { retire(ledger.complete(frontier)); }

  std::shared_ptr<Event::Mark> find_mark(MarkerToken t) {
    const std::lock_guard lock{mutex};
    const auto it = outstanding.find(t);
    return it == outstanding.end() ? nullptr : it->second;
  }

  void refuse_other_threads(StreamRef stream);
  std::shared_ptr<Mutex> recording_on(StreamId stream);
  std::shared_ptr<Event::Mark> record_mark(StreamRef stream);
  /** nullptr: the stream has been detached. */
  std::shared_ptr<Event::Mark> record_if_there(StreamRef stream);
  std::shared_ptr<Event::Mark> record_held(StreamRef stream);
  /** The earliest marker that covers `point`; recorded now if need be. nullptr: there is none. */
  std::shared_ptr<Event::Mark> covering_mark(Point point);
  void pay_owed_marks();
};

void OrderedDevice::State::refuse_other_threads(StreamRef stream) {
  if (stream.handle() != per_thread) [[likely]]
    return;
  const std::uint64_t driver_id = device.stream_id(per_thread);
  const std::lock_guard lock{mutex};
  const auto it = by_driver_id.find(driver_id);
  if (it != by_driver_id.end() && it->second == stream.id()) return;
  throw DeviceError{ErrorCode::invalid_argument, "the per-thread stream of another thread",
                    "only that thread can record, wait or synchronise there"};
}

std::shared_ptr<Mutex> OrderedDevice::State::recording_on(StreamId stream) {
  const std::lock_guard lock{mutex};
  const auto it = streams.find(stream);
  return it == streams.end() ? nullptr : it->second.recording;
}

std::shared_ptr<Event::Mark> OrderedDevice::State::record_mark(StreamRef stream) {
  if (auto mark = record_if_there(stream)) return mark;
  throw DeviceError{ErrorCode::invalid_argument, "record", "the stream has been detached"};
}

std::shared_ptr<Event::Mark> OrderedDevice::State::record_if_there(StreamRef stream) {
  const auto recording = recording_on(stream.id());
  if (recording == nullptr) return nullptr;
  const std::lock_guard held{*recording};
  if (recording_on(stream.id()) == nullptr) return nullptr;
  return record_held(stream);
}

std::shared_ptr<Event::Mark> OrderedDevice::State::record_held(StreamRef stream) {
  auto mark = std::make_shared<Event::Mark>(pool);
  PendingRecord record = ledger.begin_record(stream.id());
  mark->point = record.point;
  mark->snapshot = record.snapshot();
  device.record(mark->event, stream.handle());
  const MarkerToken t = token(mark->event);
  const std::lock_guard lock{mutex};
  mark->serial = ++serial;
  outstanding[t] = mark;
  ledger.publish_record(std::move(record), t);
  return mark;
}

std::shared_ptr<Event::Mark> OrderedDevice::State::covering_mark(Point point) {
  if (const auto marker = ledger.earliest_covering(point)) return find_mark(marker->token);
  if (ledger.completed(point)) return nullptr;
  StreamHandle handle;
  {
    const std::lock_guard lock{mutex};
    const auto it = streams.find(point.stream);
    if (it == streams.end() || !it->second.attached) return nullptr;
    handle = it->second.handle;
  }
  if (auto mark = record_if_there(StreamRef{handle, point.stream})) return mark;
  const auto last = ledger.earliest_covering(point);  // that it left
  return last ? find_mark(last->token) : nullptr;
}

void OrderedDevice::State::pay_owed_marks() {
  if (in_host_callback()) return;
  std::vector<StreamRef> streams_owed;
  {
    const std::lock_guard lock{mutex};
    if (owed.empty()) return;
    for (const StreamId id : std::exchange(owed, {})) {
      const auto it = streams.find(id);
      if (it != streams.end() && it->second.attached) {
        streams_owed.push_back(StreamRef{it->second.handle, id});
      }
    }
  }
  for (const StreamRef stream : streams_owed) record_if_there(stream);
}

OrderedDevice::OrderedDevice(Device& device) : state_(std::make_unique<State>(device)) {}
OrderedDevice::~OrderedDevice() = default;

Device& OrderedDevice::device() const noexcept { return state_->device; }
const Ledger& OrderedDevice::ledger() const noexcept { return state_->ledger; }

StreamRef OrderedDevice::attach(StreamHandle stream, AttachOptions options) {
  if (stream == state_->per_thread) {
    throw std::invalid_argument{
        "attach: the per-thread stream is another one on each thread; pass its handle as it is"};
  }
  const std::uint64_t driver_id = state_->device.stream_id(stream);
  const bool legacy = stream == state_->device.legacy_stream();
  const StreamTraits traits{.legacy = legacy,
                            .blocking = legacy || state_->device.blocking(stream),
                            .independent = options.independent};
  const std::lock_guard lock{state_->mutex};
  if (const auto it = state_->by_driver_id.find(driver_id); it != state_->by_driver_id.end()) {
    State::StreamInfo& info = state_->streams.at(it->second);
    if (info.attached) {
      throw std::invalid_argument{"attach: this stream is attached already; detach it first"};
    }
    // Seen as a raw handle until now, and what was freed there stays its own.
    state_->ledger.set_traits(it->second, traits);
    info = {stream, std::move(options.name), driver_id, true, info.recording};
    return {stream, it->second};
  }
  const State::StreamInfo info{stream, std::move(options.name), driver_id, true};
  return {stream, state_->open_locked(info, traits)};
}

void OrderedDevice::detach(StreamRef stream) {
  const auto recording = state_->recording_on(stream.id());
  const std::unique_lock held =
      recording == nullptr ? std::unique_lock<Mutex>{} : std::unique_lock{*recording};
  if (!attached(stream.id())) throw std::invalid_argument{"detach: this stream is not attached"};
  const auto close = [&](Marker last) {
    const std::lock_guard lock{state_->mutex};
    const auto it = state_->streams.find(stream.id());
    state_->by_driver_id.erase(it->second.driver_id);
    state_->streams.erase(it);
    state_->ledger.close(stream.id(), last);
  };
  try {
    tend();
    close(state_->record_held(stream)->point.marker);
  } catch (const DeviceError&) {
    close(0);
    throw;
  }
}

StreamRef OrderedDevice::resolve(StreamRef stream) {
  if (stream.id().valid()) {
    state_->refuse_other_threads(stream);
    return stream;
  }
  const std::uint64_t driver_id = state_->device.stream_id(stream.handle());
  const std::lock_guard lock{state_->mutex};
  const auto it = state_->by_driver_id.find(driver_id);
  if (it != state_->by_driver_id.end()) return {stream.handle(), it->second};
  const bool legacy = stream.handle() == state_->device.legacy_stream();
  // Who destroys it does not say so: no order with the legacy stream is relied on.
  const State::StreamInfo info{stream.handle(), {}, driver_id, false};
  return {stream.handle(), state_->open_locked(info, {.legacy = legacy, .blocking = false})};
}

bool OrderedDevice::attached(StreamId stream) const {
  const std::lock_guard lock{state_->mutex};
  const auto it = state_->streams.find(stream);
  return it != state_->streams.end() && it->second.attached;
}

std::string OrderedDevice::name(StreamId stream) const {
  const std::lock_guard lock{state_->mutex};
  const auto it = state_->streams.find(stream);
  if (it != state_->streams.end() && !it->second.name.empty()) return it->second.name;
  return "stream " + std::to_string(stream.slot) + (it == state_->streams.end() ? " (gone)" : "");
}

Point OrderedDevice::mark(StreamRef stream) {
  stream = resolve(stream);
  if (in_host_callback()) {
    const std::lock_guard lock{state_->mutex};
    state_->owed.push_back(stream.id());
    return {stream.id(), state_->ledger.next(stream.id())};
  }
  tend();
  return state_->record_mark(stream)->point;
}

// Markers that nobody asks about must not pile up; while none completes, they are asked for less.
void OrderedDevice::tend() {
  {
    const std::lock_guard lock{state_->mutex};
    if (state_->outstanding.size() < state_->poll_beyond) return;
  }
  poll();
  const std::lock_guard lock{state_->mutex};
  state_->poll_beyond = std::max(kOutstandingBeforePoll, 2 * state_->outstanding.size());
}

void OrderedDevice::record(Event& event, StreamRef stream) {
  tend();
  event.mark_ = state_->record_mark(resolve(stream));
}

void OrderedDevice::wait(StreamRef stream, const Event& event) {
  if (!event.recorded()) return;
  stream = resolve(stream);
  state_->device.wait(stream.handle(), event.mark_->event);
  state_->ledger.join(stream.id(), event.mark_->snapshot);
}

bool OrderedDevice::query(const Event& event) {
  if (!event.recorded()) return true;
  if (!state_->device.query(event.mark_->event)) return false;
  state_->complete(event.mark_->snapshot);
  return true;
}

void OrderedDevice::synchronize(const Event& event) {
  if (!event.recorded()) return;
  state_->device.synchronize(event.mark_->event);
  state_->complete(event.mark_->snapshot);
}

void OrderedDevice::record(EventHandle event, StreamRef stream) {
  stream = resolve(stream);
  forget(event);
  PendingRecord record = state_->ledger.begin_record(stream.id());
  State::ForeignEvent told{record.point, record.snapshot()};
  state_->device.record(event, stream.handle());
  auto mark = Event::Mark::borrowed(event);
  mark->point = told.point;
  mark->snapshot = told.snapshot;
  const std::lock_guard lock{state_->mutex};
  mark->serial = ++state_->serial;
  state_->foreign[event.value] = std::move(told);
  state_->outstanding[State::token(event)] = std::move(mark);
  state_->ledger.publish_record(std::move(record), State::token(event));
}

void OrderedDevice::wait(StreamRef stream, EventHandle event) {
  stream = resolve(stream);
  Frontier snapshot;
  {
    const std::lock_guard lock{state_->mutex};
    const auto it = state_->foreign.find(event.value);
    if (it != state_->foreign.end()) snapshot = it->second.snapshot;
  }
  state_->device.wait(stream.handle(), event);
  state_->ledger.join(stream.id(), snapshot);
}

void OrderedDevice::forget(EventHandle event) {
  const std::lock_guard lock{state_->mutex};
  const auto it = state_->foreign.find(event.value);
  if (it == state_->foreign.end()) return;
  state_->ledger.withdraw(it->second.point);
  state_->outstanding.erase(State::token(event));
  state_->foreign.erase(it);
}

void OrderedDevice::synchronize(StreamRef stream) {
  stream = resolve(stream);
  const Frontier all = state_->ledger.begin_synchronize(stream.id());
  state_->device.synchronize(stream.handle());
  state_->complete(all);
}

void OrderedDevice::synchronize() {
  const Frontier all = state_->ledger.begin_synchronize();
  state_->device.synchronize();
  state_->complete(all);
}

std::optional<std::uint64_t> OrderedDevice::earliest_wait(StreamId waiter, Point point) const {
  const Ledger& ledger = state_->ledger;
  if (ledger.ordered(point, waiter)) return 0;
  if (ledger.traits(waiter).independent || ledger.traits(point.stream).independent) return {};
  if (const auto marker = ledger.earliest_covering(point)) {
    const auto mark = state_->find_mark(marker->token);
    if (mark != nullptr) return mark->serial;
    if (ledger.ordered(point, waiter)) return 0;
  }
  if (attached(point.stream) && !in_host_callback()) return kTail;
  return {};
}

std::uint64_t OrderedDevice::newest_marker() const {
  const std::lock_guard lock{state_->mutex};
  return state_->serial;
}

bool OrderedDevice::wait_for(StreamRef waiter, Point point) {
  waiter = resolve(waiter);
  const auto when = earliest_wait(waiter.id(), point);
  if (!when) return false;
  if (*when == 0) return true;
  const auto mark = state_->covering_mark(point);
  if (mark == nullptr) return state_->ledger.ordered(point, waiter.id());
  state_->device.wait(waiter.handle(), mark->event);
  state_->ledger.join(waiter.id(), mark->snapshot);
  return true;
}

bool OrderedDevice::synchronize(Point point) {
  if (state_->ledger.completed(point)) return true;
  const auto mark = state_->covering_mark(point);
  if (mark == nullptr) return state_->ledger.completed(point);
  state_->device.synchronize(mark->event);
  state_->complete(mark->snapshot);
  return true;
}

void OrderedDevice::poll() {
  state_->pay_owed_marks();
  // One pass over the streams; in each, from the oldest marker on until one is not ready.
  std::vector<StreamId> not_ready;
  while (true) {
    bool advanced = false;
    for (const WaitableMarker& oldest : state_->ledger.oldest_outstanding()) {
      const StreamId stream = oldest.point.stream;
      if (std::find(not_ready.begin(), not_ready.end(), stream) != not_ready.end()) continue;
      const auto mark = state_->find_mark(oldest.token);
      if (mark != nullptr && state_->device.query(mark->event)) {
        state_->complete(mark->snapshot);
        advanced = true;
      } else {
        not_ready.push_back(stream);
      }
    }
    if (!advanced) return;
  }
}

}  // namespace millrace
