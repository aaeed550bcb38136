// Streams that are captured into graphs, and nominal streams, which exist in the ledger only.

#include <mutex>
#include <stdexcept>
#include <utility>

#include "device/ordered_device_state.hpp"
#include "millrace/device/mutex.hpp"

namespace millrace {

bool OrderedDevice::State::owe_after_capture(KnownStream& known) {
  if (known.captured == 0) [[likely]]
    return false;
  const std::lock_guard held{known.recording};
  if (known.captured == 0) return false;
  known.owes_after_capture = true;
  return true;
}

StreamRef OrderedDevice::begin_capture(StreamRef stream) {
  if (stream.handle() == state_->per_thread || stream.handle() == state_->device.legacy_stream()) {
    throw std::invalid_argument{
        "begin_capture: the legacy stream cannot be captured, and the per-thread stream is "
        "another "
        "one on each thread"};
  }
  try {
    stream = resolve(stream);
  } catch (const DeviceError& error) {  // captured already: its id cannot be queried
    const auto last = state_->streams.last_known(stream.handle());
    if (error.code() != ErrorCode::capture) throw;
    stream = {stream.handle(), last ? *last : state_->streams.resolve_unasked(stream.handle())};
  }
  KnownStream* const known = state_->streams.find(stream.id());
  if (known == nullptr) {
    throw std::invalid_argument{"begin_capture: this stream was destroyed or detached"};
  }
  const std::lock_guard held{known->recording};
  const std::lock_guard lock{state_->mutex};
  State::Captured& captured = state_->captured_handles[stream.handle().value];
  captured.stream = stream.id();
  if (captured.times++ == 0) ++state_->captures;
  ++known->captured;
  return stream;
}

void OrderedDevice::end_capture(StreamRef stream) {
  bool owes = false;
  if (KnownStream* const known = state_->streams.find(stream.id())) {  // unless it was detached
    const std::lock_guard held{known->recording};
    owes = --known->captured == 0 && std::exchange(known->owes_after_capture, false);
  }
  {
    const std::lock_guard lock{state_->mutex};
    const auto it = state_->captured_handles.find(stream.handle().value);
    if (it != state_->captured_handles.end() && --it->second.times == 0) {
      state_->captured_handles.erase(it);
      --state_->captures;
    }
  }
  if (owes) mark(stream);
}

bool OrderedDevice::capturing() const noexcept {
  return state_->captures.load(std::memory_order_relaxed) != 0;
}

bool OrderedDevice::captured(StreamId stream) const noexcept { return state_->captured(stream); }

StreamRef OrderedDevice::open_nominal(std::string name) {
  return {StreamHandle{}, state_->streams.open_nominal(std::move(name))};
}

void OrderedDevice::close_nominal(StreamRef stream, bool idle) {
  Marker last = 0;
  if (idle) {
    const Frontier all = state_->ledger.begin_synchronize(stream.id());
    last = state_->ledger.next(stream.id()) - 1;
    state_->complete(all);
  }
  state_->streams.close(stream.id(), last);
}

}  // namespace millrace
