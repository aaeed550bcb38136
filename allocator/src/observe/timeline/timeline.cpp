#include "millrace/observe/timeline.hpp"

#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/timeline/chrome_trace.hpp"
#include "observe/timeline/events.hpp"

namespace millrace {

using timeline::Events;
using timeline::HostEvent;

namespace {

// std::thread::id would not do: a new thread may get the id of one that has ended.
std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local const std::uint64_t id = ++threads;
  return id;
}

}  // namespace

struct Timeline::State {
  using Clock = std::chrono::steady_clock;

  /** Returns the calling thread and the time. */
  struct ThreadMoment {
    std::uint64_t thread = 0;
    Nanoseconds now{0};
  };

  struct Watched {
    Allocator* allocator;
    ScopeId scope;
    std::optional<StreamRef> stream;
    std::uint32_t memory;
  };

  explicit State(const Options& options) : events(options.most_events) {}

  /** Returns nothing for a thread that is not an actor of the machine. */
  std::optional<ThreadMoment> here() {
    if (machine == nullptr) {
      return ThreadMoment{this_thread(),
                          std::chrono::duration_cast<Nanoseconds>(Clock::now() - *epoch)};
    }
    const auto actor = machine->calling_actor();
    if (!actor) return {};
    return ThreadMoment{actor->id, actor->clock};
  }

  std::uint32_t thread_track(std::uint64_t thread) {
    const auto [known, is_new] = threads.try_emplace(thread, 0);
    if (is_new) {
      const auto actor = machine == nullptr ? std::nullopt : machine->calling_actor();
      known->second = events.add_thread(actor ? std::string{actor->name}
                                              : "thread " + std::to_string(threads.size()));
    }
    return known->second;
  }

  void sample(Nanoseconds now) {
    for (const Watched& watched : watches) {
      const MemoryGauges bytes = watched.allocator->peaks(watched.scope);
      timeline::Sample taken{
          .memory = watched.memory,
          .when = now,
          .reserved = bytes.reserved.current,
          .active = bytes.active.current,
      };
      if (watched.stream) taken.stranded = watched.allocator->usable(*watched.stream).stranded;
      events.add(taken);
    }
  }

  mutable std::mutex mutex;  // protects everything below
  Events events;
  timeline::Notes notes;
  VirtualMachine* machine = nullptr;
  std::optional<Clock::time_point> epoch;
  std::unordered_map<std::uint64_t, std::uint32_t> threads;
  std::vector<Watched> watches;
  std::unique_ptr<MachineTap> machine_tap;
  std::vector<std::unique_ptr<DeviceTap>> device_taps;
};

class Timeline::MachineTap final : public TimelineObserver {
 public:
  MachineTap(State& state, VirtualMachine& machine) : state_(state), machine_(machine) {
    machine_.add_timeline(*this);
  }
  ~MachineTap() override { machine_.remove_timeline(*this); }

  void executed(const ExecutedOperation& operation) override {
    const std::lock_guard lock{state_.mutex};
    state_.events.add(operation);
  }

 private:
  State& state_;
  VirtualMachine& machine_;
};

class Timeline::DeviceTap final : public DeviceObserver {
 public:
  DeviceTap(State& state, Device& device) : state_(state), device_(device) {
    device_.add_observer(*this);
  }
  ~DeviceTap() override { device_.remove_observer(*this); }

  void before(Call) override {
    const std::lock_guard lock{state_.mutex};
    if (const auto here = state_.here()) began_[here->thread].push_back(here->now);
  }

  void after(Call call) override {
    const std::lock_guard lock{state_.mutex};
    const auto here = state_.here();
    if (!here || began_[here->thread].empty()) return;
    auto& began = began_[here->thread];
    state_.events.add(HostEvent{state_.thread_track(here->thread), call, began.back(), here->now});
    began.pop_back();
  }

  void enqueued(StreamHandle, const Operation&) override {
    const std::lock_guard lock{state_.mutex};
    if (const auto here = state_.here()) state_.sample(here->now);
  }

 private:
  State& state_;
  Device& device_;
  std::unordered_map<std::uint64_t, std::vector<Nanoseconds>> began_;  ///< calls, by thread
};

Timeline::Timeline() : Timeline(Options{}) {}
Timeline::Timeline(const Options& options) : state_(std::make_unique<State>(options)) {}
Timeline::~Timeline() { stop(); }

void Timeline::note(std::string_view key, std::string_view value) {
  const std::lock_guard lock{state_->mutex};
  for (auto& [known, was] : state_->notes) {
    if (known != key) continue;
    was = value;
    return;
  }
  state_->notes.emplace_back(key, value);
}

void Timeline::attach(VirtualMachine& machine) {
  if (state_->machine != nullptr || !state_->device_taps.empty()) {
    throw std::logic_error{"Timeline: one machine, and before its devices"};
  }
  state_->machine_tap = std::make_unique<MachineTap>(*state_, machine);
  state_->machine = &machine;
}

void Timeline::attach(Device& device) {
  if (!state_->epoch) state_->epoch = State::Clock::now();
  const auto* const model = dynamic_cast<const VirtualDevice*>(&device);
  const unsigned ordinal = model == nullptr ? 0 : model->ordinal();
  state_->events.devices.emplace(ordinal, device.name());
  state_->device_taps.push_back(std::make_unique<DeviceTap>(*state_, device));
}

void Timeline::watch(Allocator& allocator, std::string_view name, std::optional<StreamRef> stream) {
  const std::uint32_t memory = state_->events.add_memory({std::string{name}, stream.has_value()});
  state_->watches.push_back({&allocator, allocator.open_scope(), stream, memory});
}

void Timeline::sample() {
  const std::lock_guard lock{state_->mutex};
  if (const auto here = state_->here()) state_->sample(here->now);
}

void Timeline::stop() noexcept {
  State& state = *state_;
  try {
    const auto here = state.epoch || state.machine != nullptr ? state.here() : std::nullopt;
    state.sample(here ? here->now : state.events.latest());
  } catch (const std::exception&) {  // the timeline then lacks the last samples
  }
  for (const State::Watched& watched : std::exchange(state.watches, {})) {
    watched.allocator->close_scope(watched.scope);
  }
  state.device_taps.clear();
  state.machine_tap.reset();
  state.machine = nullptr;
  state.threads.clear();
}

std::uint64_t Timeline::recorded() const {
  const std::lock_guard lock{state_->mutex};
  return state_->events.kept();
}

std::uint64_t Timeline::left_out() const {
  const std::lock_guard lock{state_->mutex};
  return state_->events.left_out();
}

void Timeline::write(std::ostream& out) const {
  const std::lock_guard lock{state_->mutex};
  timeline::write_chrome_trace(out, state_->events, state_->notes);
}

}  // namespace millrace
