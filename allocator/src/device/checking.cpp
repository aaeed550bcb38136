#include "millrace/device/checking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "device/virtual/machine.hpp"
#include "millrace/device/meeting.hpp"

namespace millrace {
namespace {

using Actor = RaceChecker::Actor;

// Replaces std::thread::id, which the system may give to another thread after this one has ended.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t id = ++threads;
  return id;
}

std::uint64_t key(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

RaceChecker::Access kind(Access access) {
  return access == Access::read ? RaceChecker::Access::read : RaceChecker::Access::write;
}

}  // namespace

struct CheckingObserver::State {
  /** Device, handle, and, if the handle means another stream on each thread, that thread. */
  using StreamKey = std::tuple<unsigned, std::uint64_t, std::uint64_t>;

  Actor thread() {
    const std::uint64_t id = this_thread();
    if (const auto callback = in_callback.find(id); callback != in_callback.end()) {
      return callback->second;
    }
    const auto known = threads.find(id);
    if (known != threads.end()) return known->second;
    return name_thread(fmt::format("thread {}", threads.size() + 1));
  }

  Actor name_thread(std::string name) {
    return threads[this_thread()] = checker.add_thread(std::move(name));
  }

  // Threads share the ledger: a thread that sees a completion publishes it there. For that reason
  // another thread may get the memory, or leave a wait out.
  void publish_completions() { checker.release(thread(), kCompletions); }
  void learn_completions() { checker.acquire(thread(), kCompletions); }
  static constexpr std::uint64_t kCompletions = 0;  // no object has this address

  mutable std::mutex mutex;
  RaceChecker checker;
  std::uint64_t operations = 0;
  std::map<std::uint64_t, Actor> threads;
  std::map<std::uint64_t, Actor> in_callback;  ///< key: the thread that runs it
  std::map<StreamKey, Actor> streams;
  std::map<std::pair<unsigned, std::uint64_t>, Actor> callbacks;  ///< key: device and serial
  std::set<const void*> pooled;                                   ///< allocated in a driver's pool
  std::vector<std::unique_ptr<Tap>> taps;
  Executor* executor = nullptr;
  unsigned devices = 0;
};

/** Observes one device. */
class CheckingObserver::Tap final : public DeviceObserver {
 public:
  Tap(State& state, Device& device)
      : state_(state),
        device_(device),
        virtual_(dynamic_cast<const VirtualDevice*>(&device)),
        number_(state.devices++),
        per_thread_(device.per_thread_stream()) {
    device_.add_observer(*this);
  }
  ~Tap() override { device_.remove_observer(*this); }

  [[nodiscard]] const Device& device() const noexcept { return device_; }

  /**
   * Returns the actor of the stream; adds one if it is unknown. The caller has locked the state.
   */
  Actor stream(StreamHandle handle) {
    const auto known = state_.streams.find(stream_key(handle));
    if (known != state_.streams.end()) return known->second;
    StreamOptions options;
    const bool legacy = handle == device_.legacy_stream();
    options.blocking = legacy || handle == per_thread_;
    options.name = legacy ? "legacy" : handle == per_thread_ ? "per-thread" : "";
    return add(handle, options, legacy);
  }

  void stream_created(StreamHandle handle, const StreamOptions& options) override {
    const std::lock_guard lock{state_.mutex};
    add(handle, options, false);
  }

  void stream_destroyed(StreamHandle handle) override {
    const std::lock_guard lock{state_.mutex};
    const auto known = state_.streams.find(stream_key(handle));
    if (known == state_.streams.end()) return;
    state_.checker.remove_stream(known->second);
    state_.streams.erase(known);
  }

  void enqueued(StreamHandle handle, const Operation& operation) override {
    const std::lock_guard lock{state_.mutex};
    const auto op = state_.checker.enqueue(stream(handle), state_.thread(), operation.name);
    state_.operations = op;
    for (const View& view : operation.views) {
      if (view.bytes == 0 || pageable(view.address)) continue;
      state_.checker.access(op, view.address, view.bytes, kind(view.access));
    }
    if (const Meeting* const meeting = operation.meeting.get()) {
      state_.checker.meet(meeting->serial(), meeting->parties(), stream(handle));
    }
  }

  void recorded(EventHandle event, StreamHandle handle) override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.record(key(event.value), stream(handle), state_.thread());
  }

  void waited(StreamHandle handle, EventHandle event) override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.wait(stream(handle), key(event.value), state_.thread());
  }

  void event_completed(EventHandle event) override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.event_synchronized(key(event.value), state_.thread());
    state_.publish_completions();
  }

  void stream_completed(StreamHandle handle) override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.stream_synchronized(stream(handle), state_.thread());
    state_.publish_completions();
  }

  void device_completed() override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.device_synchronized(state_.thread(), number_);
    state_.publish_completions();
  }

  void completions_learned() override {
    const std::lock_guard lock{state_.mutex};
    state_.learn_completions();
  }

  void event_destroyed(EventHandle event) override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.forget_event(key(event.value));
  }

  void aliased(void* to, void* from, std::size_t bytes) override {
    const std::lock_guard lock{state_.mutex};
    state_.checker.aliased(to, from, bytes);
  }

  void pool_allocated(StreamHandle handle, void* address, std::size_t bytes) override {
    const std::lock_guard lock{state_.mutex};
    state_.operations =
        state_.checker.pool_allocated(address, bytes, stream(handle), state_.thread());
    state_.pooled.insert(address);
  }

  // The driver's call comes after this report. If it fails and is repeated, the report comes again.
  void pool_freed(StreamHandle handle, void* address) override {
    const std::lock_guard lock{state_.mutex};
    if (state_.pooled.erase(address) == 0) return;
    state_.operations = state_.checker.pool_freed(address, stream(handle), state_.thread());
  }

  void callback_enqueued(StreamHandle handle, std::uint64_t serial) override {
    const std::lock_guard lock{state_.mutex};
    state_.callbacks[{number_, serial}] =
        state_.checker.begin_callback(stream(handle), state_.thread(), fmt::format("{}", serial));
  }

  void callback_started(StreamHandle, std::uint64_t serial) override {
    const std::lock_guard lock{state_.mutex};
    const auto callback = state_.callbacks.find({number_, serial});
    if (callback != state_.callbacks.end()) state_.in_callback[this_thread()] = callback->second;
  }

  void callback_ended(StreamHandle, std::uint64_t serial) override {
    const std::lock_guard lock{state_.mutex};
    const auto callback = state_.callbacks.find({number_, serial});
    if (callback == state_.callbacks.end()) return;
    state_.checker.end_callback(callback->second);
    state_.callbacks.erase(callback);
    state_.in_callback.erase(this_thread());
  }

 private:
  // A call that copies pageable memory returns after it has read or written that memory, so only
  // host threads can race for it. And the heap gives memory from one thread to another without a
  // report.
  [[nodiscard]] bool pageable(const void* address) const {
    return virtual_ != nullptr && simulation::Machine::pageable(*virtual_, address);
  }

  [[nodiscard]] State::StreamKey stream_key(StreamHandle handle) const {
    return {number_, key(handle.value), handle == per_thread_ ? this_thread() : 0};
  }

  Actor add(StreamHandle handle, const StreamOptions& options, bool legacy) {
    const std::string name =
        options.name.empty() ? fmt::format("stream {}", ++streams_made_) : options.name;
    const Actor actor = state_.checker.add_stream(name, options.blocking, legacy, number_);
    return state_.streams[stream_key(handle)] = actor;
  }

  State& state_;
  Device& device_;
  const VirtualDevice* const
      virtual_;  ///< nullptr: another kind of device, which does not know pinned memory
  const unsigned number_;
  const StreamHandle per_thread_;
  unsigned streams_made_ = 0;
};

CheckingObserver::CheckingObserver() : state_(std::make_unique<State>()) {}

CheckingObserver::~CheckingObserver() {
  if (state_->executor != nullptr) state_->executor->observe_host_order(nullptr);
}

void CheckingObserver::attach(Device& device) {
  state_->taps.push_back(std::make_unique<Tap>(*state_, device));
}

void CheckingObserver::detach(Device& device) {
  std::erase_if(state_->taps, [&](const auto& tap) { return &tap->device() == &device; });
}

void CheckingObserver::attach(Executor& executor) {
  state_->executor = &executor;
  executor.observe_host_order(this);
}

void CheckingObserver::name_this_thread(std::string_view name) {
  const std::lock_guard lock{state_->mutex};
  if (!state_->threads.contains(this_thread())) state_->name_thread(std::string{name});
}

void CheckingObserver::released(std::uint64_t object) {
  const std::lock_guard lock{state_->mutex};
  state_->checker.release(state_->thread(), object);
}

void CheckingObserver::acquired(std::uint64_t object) {
  const std::lock_guard lock{state_->mutex};
  state_->checker.acquire(state_->thread(), object);
}

void CheckingObserver::ended() {
  const std::lock_guard lock{state_->mutex};
  const auto known = state_->threads.find(this_thread());
  if (known == state_->threads.end()) return;
  state_->checker.remove_thread(known->second);
  state_->threads.erase(known);
}

void CheckingObserver::host_reads(const void* address, std::size_t bytes, std::string_view name) {
  const std::lock_guard lock{state_->mutex};
  state_->operations = state_->checker.host_operation(state_->thread(), name);
  state_->checker.access(state_->operations, address, bytes, RaceChecker::Access::read);
}

void CheckingObserver::host_writes(const void* address, std::size_t bytes, std::string_view name) {
  const std::lock_guard lock{state_->mutex};
  state_->operations = state_->checker.host_operation(state_->thread(), name);
  state_->checker.access(state_->operations, address, bytes, RaceChecker::Access::write);
}

void CheckingObserver::allocated(const void* address, std::size_t bytes, Device& device,
                                 StreamHandle user) {
  const std::lock_guard lock{state_->mutex};
  for (const auto& tap : state_->taps) {
    if (&tap->device() != &device) continue;
    state_->learn_completions();
    state_->operations =
        state_->checker.allocated(address, bytes, tap->stream(user), state_->thread());
    return;
  }
  throw std::invalid_argument("CheckingObserver: the device is not attached");
}

void CheckingObserver::allocated_for_host(const void* address, std::size_t bytes) {
  const std::lock_guard lock{state_->mutex};
  state_->learn_completions();
  state_->operations = state_->checker.allocated_for_host(address, bytes, state_->thread());
}

void CheckingObserver::freed(const void* address) {
  const std::lock_guard lock{state_->mutex};
  state_->operations = state_->checker.freed(address, state_->thread());
}

std::vector<RaceChecker::Race> CheckingObserver::races() const {
  const std::lock_guard lock{state_->mutex};
  return state_->checker.races();
}

std::uint64_t CheckingObserver::operations() const {
  const std::lock_guard lock{state_->mutex};
  return state_->operations;
}

}  // namespace millrace
