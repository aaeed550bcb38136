#include "device/stream_table.hpp"

#include <mutex>
#include <stdexcept>
#include <utility>

namespace millrace {
namespace {

constexpr std::uint64_t kNominal = ~std::uint64_t{0};  // the driver's ids count up from below
constexpr std::uint64_t kFirstStandIn = kNominal - 1;  // stand-ins count down from here

bool is_stand_in(std::uint64_t driver_id) {
  return driver_id <= kFirstStandIn && driver_id > kFirstStandIn / 2;
}

}  // namespace

bool StreamTable::attached(StreamId stream) const noexcept {
  const KnownStream* known = find(stream);
  return known != nullptr && known->attached && known->generation == stream.generation;
}

std::optional<StreamHandle> StreamTable::handle(StreamId stream) const noexcept {
  const KnownStream* known = find(stream);
  if (known == nullptr || !known->attached) return std::nullopt;
  const StreamHandle handle{known->handle};
  if (known->generation != stream.generation) return std::nullopt;
  return handle;
}

std::string StreamTable::name(StreamId stream) const {
  const std::lock_guard lock{mutex_};
  const KnownStream* known = find(stream);
  if (known != nullptr && !known->name.empty()) return known->name;
  return "stream " + std::to_string(stream.slot) + (known == nullptr ? " (gone)" : "");
}

bool StreamTable::is(StreamId stream, std::uint64_t driver_id) const {
  const std::lock_guard lock{mutex_};
  const auto it = by_driver_id_.find(driver_id);
  return it != by_driver_id_.end() && it->second == stream;
}

StreamId StreamTable::resolve(StreamHandle handle, std::uint64_t driver_id, bool legacy) {
  const std::lock_guard lock{mutex_};
  const auto it = by_driver_id_.find(driver_id);
  if (it != by_driver_id_.end()) return it->second;
  forget_former(handle, driver_id);
  // A raw stream's destruction is not reported, so no order with the legacy stream may be assumed.
  const StreamId stream = open(handle, driver_id, {.legacy = legacy, .blocking = false});
  if (handle != per_thread_) raw_[handle.value] = stream;
  return stream;
}

StreamId StreamTable::resolve_unasked(StreamHandle handle) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t stand_in = kFirstStandIn - unasked_++;
  forget_former(handle, stand_in);
  const StreamId stream = open(handle, stand_in, {.blocking = false});
  raw_[handle.value] = stream;
  return stream;
}

std::optional<StreamId> StreamTable::last_known(StreamHandle handle) const {
  const std::lock_guard lock{mutex_};
  if (const auto raw = raw_.find(handle.value); raw != raw_.end()) return raw->second;
  for (const auto& [driver_id, stream] : by_driver_id_) {
    const KnownStream* const known = find(stream);
    if (known != nullptr && known->attached && known->handle == handle.value) return stream;
  }
  return {};
}

StreamId StreamTable::attach(StreamHandle handle, std::uint64_t driver_id,
                             const StreamTraits& traits, std::string name) {
  const std::lock_guard lock{mutex_};
  StreamId stream;
  if (const auto it = by_driver_id_.find(driver_id); it != by_driver_id_.end()) {
    stream = it->second;
    if (attached(stream)) {
      throw std::invalid_argument{"attach: this stream is attached already; detach it first"};
    }
    // It was a raw handle until now. Its id stays, and with it the points of memory freed on it.
    ledger_.set_traits(stream, traits);
    const auto raw = raw_.find(handle.value);
    if (raw != raw_.end() && raw->second == stream) raw_.erase(raw);
  } else {
    forget_former(handle, driver_id);
    stream = open(handle, driver_id, traits);
  }
  KnownStream& known = streams_[stream.slot];
  known.handle = handle.value;
  known.name = std::move(name);
  known.attached = true;
  return stream;
}

StreamId StreamTable::open_nominal(std::string name) {
  const std::lock_guard lock{mutex_};
  const StreamId stream = ledger_.open({.blocking = false, .independent = true});
  KnownStream& known = streams_.grow_to(stream.slot);
  known.handle = nullptr;
  known.driver_id = kNominal;
  known.owes_mark = known.owes_after_capture = known.wanted_mark = false;
  known.captured = 0;
  known.name = std::move(name);
  known.generation = stream.generation;
  return stream;
}

void StreamTable::close(StreamId stream, Marker last) {
  const std::lock_guard lock{mutex_};
  close_locked(stream, last);
}

StreamId StreamTable::open(StreamHandle handle, std::uint64_t driver_id,
                           const StreamTraits& traits) {
  const StreamId stream = ledger_.open(traits);
  KnownStream& known = streams_.grow_to(stream.slot);
  known.handle = handle.value;
  known.driver_id = driver_id;
  known.owes_mark = known.owes_after_capture = known.wanted_mark = false;
  known.captured = 0;
  known.generation = stream.generation;
  by_driver_id_[driver_id] = stream;
  return stream;
}

void StreamTable::close_locked(StreamId stream, Marker last) {
  KnownStream& known = streams_[stream.slot];
  if (known.driver_id != kNominal) by_driver_id_.erase(known.driver_id);
  known.generation = 0;
  known.attached = false;
  known.name.clear();
  ledger_.close(stream, last);
}

// If a handle names another stream than before, the former stream was destroyed.
void StreamTable::forget_former(StreamHandle handle, std::uint64_t driver_id) {
  const auto it = raw_.find(handle.value);
  if (it == raw_.end()) return;
  const StreamId former = it->second;
  raw_.erase(it);
  const KnownStream* known = find(former);
  if (known == nullptr || known->driver_id == driver_id) return;
  // The stream of a stand-in still exists, or was destroyed at an unknown time. It stays open, and
  // its work is complete after a synchronization of the device.
  if (!is_stand_in(known->driver_id)) close_locked(former, 0);
}

}  // namespace millrace
