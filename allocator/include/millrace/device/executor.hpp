#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/device/operation.hpp"

namespace millrace {

/** @brief A condition variable whose waiting and waking go through an executor. */
class Condition {
 public:
  virtual ~Condition() = default;
  virtual void wait(std::unique_lock<std::mutex>& lock) = 0;
  virtual void notify_all() = 0;
};

/** @brief Sees the edges between host actors that go through an executor. Must not call it. */
class HostOrderObserver {
 public:
  virtual ~HostOrderObserver() = default;
  /** @brief What the calling thread did so far is before whatever acquires `object` later. */
  virtual void released(std::uint64_t object) = 0;
  virtual void acquired(std::uint64_t object) = 0;
  /** @brief The calling thread's actor ends, after its last release. */
  virtual void ended() = 0;
};

/**
 * @brief Where host actors (ranks, loader, copier, shipper) run, and what clock they live by.
 *
 * `ThreadExecutor` gives each actor a thread and real time. A virtual machine's executor runs one
 * actor at a time, chosen by virtual time or by the seed, so that a run can be repeated exactly.
 * Actors use nothing else to wait for each other: `Condition`, `Task::join`, device waits.
 */
class Executor {
 public:
  class Task {
   public:
    virtual ~Task() = default;
    /** @brief Waits for the actor's end. @throws what the actor threw */
    virtual void join() = 0;
  };

  virtual ~Executor() = default;

  [[nodiscard]] virtual std::unique_ptr<Task> spawn(std::string name,
                                                    std::function<void()> body) = 0;
  [[nodiscard]] virtual std::unique_ptr<Condition> make_condition() = 0;
  /** @brief The calling actor's clock. */
  [[nodiscard]] virtual Nanoseconds now() = 0;
  /** @brief Host work of this length: passes on the virtual clock; sleeps or spins on the real. */
  virtual void spend(Nanoseconds host_time) = 0;
  /** @brief A point at which another actor may be chosen. */
  virtual void yield() = 0;

  /**
   * @brief Tells of spawn, join and conditions from now on; null ends it. Not owned.
   * Set while no other actor runs.
   */
  void observe_host_order(HostOrderObserver* observer) noexcept { observer_ = observer; }

  /** @brief Tells the observer of an edge through a lock of the caller's: see HostOrderObserver. */
  void released(const void* object) const {
    if (observer_ != nullptr) observer_->released(reinterpret_cast<std::uintptr_t>(object));
  }
  void acquired(const void* object) const {
    if (observer_ != nullptr) observer_->acquired(reinterpret_cast<std::uintptr_t>(object));
  }

 protected:
  void ended() const {
    if (observer_ != nullptr) observer_->ended();
  }

 private:
  HostOrderObserver* observer_ = nullptr;
};

}  // namespace millrace
