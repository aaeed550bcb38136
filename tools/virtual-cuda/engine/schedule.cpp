#include "engine/schedule.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <unordered_map>

#include "engine/engine.hpp"
#include "engine/timed_schedule.hpp"

namespace millrace::virtual_cuda {
namespace {

using Patience = Engine::Patience;

std::size_t oldest(const std::vector<Operation*>& ready) {
  const auto first = std::min_element(
      ready.begin(), ready.end(),
      [](const Operation* a, const Operation* b) { return a->number < b->number; });
  return static_cast<std::size_t>(first - ready.begin());
}

/** The time that the program gives for a kernel; 0 if it gives none. */
Nanoseconds given_time(const Operation& operation, const DeviceProfile& profile) {
  const auto* const kernel = std::get_if<KernelWork>(&operation.work);
  return kernel == nullptr ? Nanoseconds{0} : time_of(*kernel, profile);
}

/** Runs work at the call. The clock is the host's clock plus the times given for kernels. */
class Instant final : public Schedule {
 public:
  Instant(Engine& engine, const DeviceProfile& profile) : Schedule{engine}, profile_{profile} {}

  void enqueued(Lock& lock, const OperationRef& operation) override {
    engine().complete(lock, operation, patience_for(*operation));
  }
  void settle(Lock& lock) override { engine().run_ready(lock); }
  bool query(Lock& lock, const OperationRef& operation) override {
    return engine().complete(lock, operation, Patience::none);
  }
  std::size_t choose(const std::vector<Operation*>& ready) override { return oldest(ready); }
  void stamp(Operation& operation) override {
    operation.begin = now();
    skipped_.fetch_add(given_time(operation, profile_).count(), std::memory_order_relaxed);
    operation.end = now();
  }
  Nanoseconds now() const override {
    return std::chrono::duration_cast<Nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch()) +
           Nanoseconds{skipped_.load(std::memory_order_relaxed)};
  }

 private:
  DeviceProfile profile_;
  std::atomic<std::int64_t> skipped_{0};  // atomic: events are recorded without the lock
};

/** A clock for schedules without a profile: an operation takes at least a microsecond. */
class CountingSchedule : public Schedule {
 public:
  CountingSchedule(Engine& engine, const DeviceProfile& profile)
      : Schedule{engine}, profile_{profile} {}

  void stamp(Operation& operation) override {
    operation.begin = now_;
    operation.end = now_ +=
        std::max<Nanoseconds>(std::chrono::microseconds{1}, given_time(operation, profile_));
  }
  Nanoseconds now() const override { return now_; }

 private:
  DeviceProfile profile_;
  Nanoseconds now_{0};
};

/** An operation is done `lag` operations and queries after its own call. */
class Lag final : public CountingSchedule {
 public:
  Lag(Engine& engine, const DeviceProfile& profile, std::uint64_t lag)
      : CountingSchedule{engine, profile}, lag_{lag} {}

  void enqueued(Lock& lock, const OperationRef&) override { settle(lock); }
  void settle(Lock& lock) override {
    std::vector<OperationRef> due;
    for (const auto& [number, operation] : engine().pending()) {
      if (number + lag_ > engine().numbers()) break;
      due.push_back(operation);
    }
    for (const OperationRef& operation : due)
      engine().complete(lock, operation, patience_for(*operation));
  }
  bool query(Lock& lock, const OperationRef& operation) override {
    static_cast<void>(engine().next_number());
    settle(lock);
    return operation->done();
  }
  std::size_t choose(const std::vector<Operation*>& ready) override { return oldest(ready); }

 private:
  std::uint64_t lag_;
};

/**
 * Runs nothing until a call needs it, and then only the operations that the call needs. Streams
 * have random priorities with change points (random order would rarely starve one stream for long).
 * A query answers "not ready" up to three times first.
 */
class Adversarial final : public CountingSchedule {
 public:
  Adversarial(Engine& engine, const DeviceProfile& profile, std::uint64_t seed)
      : CountingSchedule{engine, profile}, random_{seed} {}

  void enqueued(Lock&, const OperationRef&) override {}
  void settle(Lock&) override {}
  bool query(Lock& lock, const OperationRef& operation) override {
    if (operation->refusals == Operation::kUndrawn)
      operation->refusals = static_cast<unsigned>(random_() % kMostRefusals);
    if (operation->refusals > 0) {
      --operation->refusals;
      return false;
    }
    return engine().complete(lock, operation, patience_for(*operation));
  }
  std::size_t choose(const std::vector<Operation*>& ready) override {
    std::size_t best = 0;
    for (std::size_t i = 1; i < ready.size(); ++i)
      if (order(*ready[i]) < order(*ready[best])) best = i;
    if (random_() % kChange == 0) priorities_[ready[best]->stream_id] = random_();
    return best;
  }

 private:
  static constexpr std::uint64_t kMostRefusals = 4;
  static constexpr std::uint64_t kChange = 8;

  // Nodes of graphs have no stream. Those that are ready run in random order.
  std::pair<std::uint64_t, std::uint64_t> order(const Operation& operation) {
    if (operation.stream_id == 0) return {random_(), operation.number};
    const auto [entry, added] = priorities_.try_emplace(operation.stream_id, 0);
    if (added) entry->second = random_();
    return {entry->second, operation.number};
  }

  std::mt19937_64 random_;
  std::unordered_map<std::uint64_t, std::uint64_t> priorities_;
};

}  // namespace

Engine::Patience patience_for(const Operation& operation) noexcept {
  const bool first_call = std::holds_alternative<HostWork>(operation.work) &&
                          operation.state == Operation::State::waiting;
  return first_call ? Patience::grace : Patience::none;
}

std::unique_ptr<Schedule> make_schedule(Engine& engine, const Settings& settings,
                                        const DeviceProfile& profile) {
  switch (settings.mode) {
    case Mode::instant:
      return std::make_unique<Instant>(engine, profile);
    case Mode::lag:
      return std::make_unique<Lag>(engine, profile, settings.lag);
    case Mode::adversarial:
      return std::make_unique<Adversarial>(engine, profile, settings.seed);
    case Mode::timed:
      return std::make_unique<TimedSchedule>(engine, profile);
  }
  return nullptr;
}

}  // namespace millrace::virtual_cuda
