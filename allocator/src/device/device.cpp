#include "millrace/device/device.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "device/host_callback.hpp"

namespace millrace {
namespace {

Operation copy_operation(void* to, const void* from, std::size_t bytes, CopyKind kind) {
  static constexpr const char* names[] = {"h2d", "d2h", "d2d", "h2h"};
  Operation operation;
  operation.name = names[static_cast<int>(kind)];
  operation.views = {{const_cast<void*>(from), bytes, Access::read}, {to, bytes, Access::write}};
  return operation;
}

Operation fill_operation(void* address, std::size_t bytes) {
  Operation operation;
  operation.name = "fill";
  operation.views = {{address, bytes, Access::write}};
  return operation;
}

[[noreturn]] void refuse(const Device& device, Call call, const char* why) {
  throw DeviceError{ErrorCode::not_supported, to_string(call), device.name() + ' ' + why};
}

constexpr const char* kRanges = "cannot map memory into ranges";
constexpr const char* kPool = "has no pool of the driver";

}  // namespace

/*
 * What observers can rely on, on every device:
 *   - `before` is called before the driver call, in the order of registration. If one throws, as a
 *     FaultInjector does, the driver is not called.
 *   - Each observer whose `before` returned gets one `after`, also if the call throws.
 *   - An event (`recorded`, `stream_completed`, ...) is reported after the driver call, before
 *     `after`, and only if the call succeeded. So every reported event has happened.
 *   - `pool_freed` and `callback_enqueued` are reported before the driver call. After that call,
 *     another thread may get the memory, or the callback may run, before this thread can report it.
 *     If enqueuing the callback fails, `callback_ended` follows.
 * Observers are called without a lock, on the thread of the call. `callback_started` and
 * `callback_ended` are called on the thread that runs the callback. The list does not change while
 * other threads use the device.
 */
inline Device::Entry::Entry(Device& device, Call call) : device_(device), call_(call) {
  device.calls_[static_cast<std::size_t>(call)].fetch_add(1, std::memory_order_relaxed);
  if (!device.observers_.empty()) [[unlikely]]
    notify_before();
}

inline Device::Entry::~Entry() {
  if (!device_.observers_.empty()) [[unlikely]]
    notify_after();
}

void Device::Entry::notify_before() const {
  std::size_t notified = 0;
  try {
    for (; notified < device_.observers_.size(); ++notified)
      device_.observers_[notified]->before(call_);
  } catch (...) {
    while (notified > 0) device_.observers_[--notified]->after(call_);
    throw;
  }
}

void Device::Entry::notify_after() const noexcept {
  for (DeviceObserver* observer : device_.observers_) observer->after(call_);
}

template <typename Notify>
void Device::notify_observers(Notify notify) {
  for (DeviceObserver* observer : observers_) notify(*observer);
}

void* Device::allocate(std::size_t bytes) {
  const Entry entry{*this, Call::allocate};
  return do_allocate(bytes);
}

void Device::free(void* address) {
  const Entry entry{*this, Call::free};
  do_free(address);
}

void* Device::allocate_host(std::size_t bytes) {
  const Entry entry{*this, Call::allocate_host};
  return do_allocate_host(bytes);
}

void Device::free_host(void* address) {
  const Entry entry{*this, Call::free_host};
  do_free_host(address);
}

MemoryInfo Device::memory_info() {
  const Entry entry{*this, Call::memory_info};
  return do_memory_info();
}

void* Device::reserve_range(std::size_t bytes) {
  const Entry entry{*this, Call::reserve_range};
  return do_reserve_range(bytes);
}

void Device::release_range(void* base, std::size_t bytes) {
  const Entry entry{*this, Call::release_range};
  do_release_range(base, bytes);
}

void Device::map(void* address, std::size_t bytes) {
  const Entry entry{*this, Call::map};
  do_map(address, bytes);
}

void Device::unmap(void* address, std::size_t bytes) {
  const Entry entry{*this, Call::unmap};
  do_unmap(address, bytes);
}

void Device::alias(void* to, void* from, std::size_t bytes) {
  const Entry entry{*this, Call::map};
  do_alias(to, from, bytes);
  notify_observers([&](DeviceObserver& observer) { observer.aliased(to, from, bytes); });
}

void* Device::do_reserve_range(std::size_t) { refuse(*this, Call::reserve_range, kRanges); }
void Device::do_release_range(void*, std::size_t) { refuse(*this, Call::release_range, kRanges); }
void Device::do_map(void*, std::size_t) { refuse(*this, Call::map, kRanges); }
void Device::do_unmap(void*, std::size_t) { refuse(*this, Call::unmap, kRanges); }
void Device::do_alias(void*, void*, std::size_t) {
  refuse(*this, Call::map, "cannot map a page at two addresses");
}
void* Device::do_allocate_async(std::size_t, StreamHandle) {
  refuse(*this, Call::allocate_async, kPool);
}
void Device::do_free_async(void*, StreamHandle) { refuse(*this, Call::free_async, kPool); }

void* Device::allocate_async(std::size_t bytes, StreamHandle stream) {
  const Entry entry{*this, Call::allocate_async};
  void* const address = do_allocate_async(bytes, stream);
  notify_observers(
      [&](DeviceObserver& observer) { observer.pool_allocated(stream, address, bytes); });
  return address;
}

void Device::free_async(void* address, StreamHandle stream) {
  const Entry entry{*this, Call::free_async};
  notify_observers([&](DeviceObserver& observer) { observer.pool_freed(stream, address); });
  do_free_async(address, stream);
}

void Device::trim_pool(std::size_t keep_bytes) {
  const Entry entry{*this, Call::trim_pool};
  do_trim_pool(keep_bytes);
}

StreamHandle Device::create_stream(const StreamOptions& options) {
  const Entry entry{*this, Call::create_stream};
  const StreamHandle stream = do_create_stream(options);
  notify_observers([&](DeviceObserver& observer) { observer.stream_created(stream, options); });
  return stream;
}

void Device::destroy_stream(StreamHandle stream) {
  const Entry entry{*this, Call::destroy_stream};
  do_destroy_stream(stream);
  notify_observers([&](DeviceObserver& observer) { observer.stream_destroyed(stream); });
}

std::uint64_t Device::stream_id(StreamHandle stream) {
  const Entry entry{*this, Call::stream_id};
  return do_stream_id(stream);
}

bool Device::blocking(StreamHandle stream) {
  const Entry entry{*this, Call::stream_flags};
  return do_blocking(stream);
}

CaptureStatus Device::capture_status(StreamHandle stream) {
  const Entry entry{*this, Call::capture_status};
  return do_capture_status(stream);
}

bool Device::query(StreamHandle stream) {
  const Entry entry{*this, Call::query_stream};
  const bool complete = do_query(stream);
  if (complete)
    notify_observers([&](DeviceObserver& observer) { observer.stream_completed(stream); });
  return complete;
}

void Device::synchronize(StreamHandle stream) {
  const Entry entry{*this, Call::synchronize_stream};
  do_synchronize(stream);
  notify_observers([&](DeviceObserver& observer) { observer.stream_completed(stream); });
}

void Device::synchronize() {
  const Entry entry{*this, Call::synchronize_device};
  do_synchronize();
  notify_observers([](DeviceObserver& observer) { observer.device_completed(); });
}

EventHandle Device::create_event(bool timed) {
  const Entry entry{*this, Call::create_event};
  return do_create_event(timed);
}

void Device::destroy_event(EventHandle event) {
  const Entry entry{*this, Call::destroy_event};
  do_destroy_event(event);
  notify_observers([&](DeviceObserver& observer) { observer.event_destroyed(event); });
}

void Device::record(EventHandle event, StreamHandle stream) {
  const Entry entry{*this, Call::record};
  do_record(event, stream);
  notify_observers([&](DeviceObserver& observer) { observer.recorded(event, stream); });
}

void Device::wait(StreamHandle stream, EventHandle event) {
  const Entry entry{*this, Call::wait};
  do_wait(stream, event);
  notify_observers([&](DeviceObserver& observer) { observer.waited(stream, event); });
}

bool Device::query(EventHandle event) {
  const Entry entry{*this, Call::query_event};
  const bool complete = do_query(event);
  if (complete)
    notify_observers([&](DeviceObserver& observer) { observer.event_completed(event); });
  return complete;
}

void Device::synchronize(EventHandle event) {
  const Entry entry{*this, Call::synchronize_event};
  do_synchronize(event);
  notify_observers([&](DeviceObserver& observer) { observer.event_completed(event); });
}

Nanoseconds Device::event_time(EventHandle event) {
  const Entry entry{*this, Call::event_time};
  return do_event_time(event);
}

void Device::copy(void* to, const void* from, std::size_t bytes, CopyKind kind,
                  StreamHandle stream) {
  const Entry entry{*this, Call::copy};
  do_copy(to, from, bytes, kind, stream);
  if (observers_.empty()) return;
  const Operation operation = copy_operation(to, from, bytes, kind);
  notify_observers([&](DeviceObserver& observer) { observer.enqueued(stream, operation); });
}

void Device::fill(void* address, unsigned char value, std::size_t bytes, StreamHandle stream) {
  const Entry entry{*this, Call::fill};
  do_fill(address, value, bytes, stream);
  if (observers_.empty()) return;
  const Operation operation = fill_operation(address, bytes);
  notify_observers([&](DeviceObserver& observer) { observer.enqueued(stream, operation); });
}

void Device::launch(Operation operation, StreamHandle stream) {
  const Entry entry{*this, Call::launch};
  if (observers_.empty()) return do_launch(std::move(operation), stream);
  do_launch(operation, stream);
  notify_observers([&](DeviceObserver& observer) { observer.enqueued(stream, operation); });
}

void Device::callback(StreamHandle stream, std::function<void()> function) {
  const Entry entry{*this, Call::callback};
  const std::uint64_t serial = callback_serial_.fetch_add(1, std::memory_order_relaxed) + 1;
  notify_observers([&](DeviceObserver& observer) { observer.callback_enqueued(stream, serial); });
  auto observed = [this, stream, serial, function = std::move(function)] {
    notify_observers([&](DeviceObserver& observer) { observer.callback_started(stream, serial); });
    {
      const HostCallbackScope inside;
      function();
    }
    notify_observers([&](DeviceObserver& observer) { observer.callback_ended(stream, serial); });
  };
  try {
    do_callback(stream, std::move(observed), serial);
  } catch (...) {
    notify_observers([&](DeviceObserver& observer) { observer.callback_ended(stream, serial); });
    throw;
  }
}

std::uint64_t Device::calls(Call call) const noexcept {
  return calls_[static_cast<std::size_t>(call)].load(std::memory_order_relaxed);
}

std::uint64_t Device::calls() const noexcept {
  return std::accumulate(calls_.begin(), calls_.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const std::atomic<std::uint64_t>& count) {
                           return sum + count.load(std::memory_order_relaxed);
                         });
}

void Device::add_observer(DeviceObserver& observer) { observers_.push_back(&observer); }

void Device::remove_observer(DeviceObserver& observer) {
  observers_.erase(std::remove(observers_.begin(), observers_.end(), &observer), observers_.end());
}

void Device::learn_completions() {
  do_learn_completions();
  notify_observers([](DeviceObserver& observer) { observer.completions_learned(); });
}

}  // namespace millrace
