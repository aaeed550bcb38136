#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/device/operation.hpp"

namespace millrace {

/** @brief A condition variable that waits and notifies through an executor. */
class Condition {
 public:
  virtual ~Condition() = default;
  /**
   * @brief Releases `lock`, waits for a notification, and takes the lock again.
   *
   * May also return without a notification: call it in a loop that checks the condition.
   * @throws Deadlock on a virtual machine if no actor can run
   */
  virtual void wait(std::unique_lock<std::mutex>& lock) = 0;
  /** @brief Wakes all waiting actors. */
  virtual void notify_all() = 0;
};

/**
 * @brief Receives each order between host actors that an executor creates. Must not call the
 *        executor.
 */
class HostOrderObserver {
 public:
  virtual ~HostOrderObserver() = default;
  /**
   * @brief Reports that all that the calling thread did so far happens before a later
   *        `acquired(object)`.
   */
  virtual void released(std::uint64_t object) = 0;
  /** @brief Reports that the calling thread comes after all earlier calls of `released(object)`. */
  virtual void acquired(std::uint64_t object) = 0;
  /** @brief Reports that the actor of the calling thread ends. Its last release came before. */
  virtual void ended() = 0;
};

/**
 * @brief Runs host actors (ranks, loader, copier, shipper) and provides their clock.
 *
 * `ThreadExecutor` gives each actor a thread and uses real time. The executor of a virtual machine
 * runs one actor at a time, chosen by virtual time or by the seed, so that a run can be repeated
 * exactly. Actors must wait for each other only with `Condition`, `Task::join` and device waits.
 */
class Executor {
 public:
  /** @brief A running actor. */
  class Task {
   public:
    virtual ~Task() = default;
    /** @brief Blocks until the actor has ended. @throws what the actor threw */
    virtual void join() = 0;
  };

  virtual ~Executor() = default;

  /**
   * @brief Starts an actor that runs `body`.
   * @param name  the actor's name in messages and timelines
   * @param body  runs until it returns or throws; `Task::join` rethrows
   * @return the actor, to join it
   */
  [[nodiscard]] virtual std::unique_ptr<Task> spawn(std::string name,
                                                    std::function<void()> body) = 0;
  /** @brief Makes a condition for actors of this executor, which must outlive it. */
  [[nodiscard]] virtual std::unique_ptr<Condition> make_condition() = 0;
  /** @brief Returns the time on the calling actor's clock. */
  [[nodiscard]] virtual Nanoseconds now() = 0;
  /**
   * @brief Simulates host work that takes `host_time`. Advances a virtual clock; on a real one, the
   *        thread sleeps or spins.
   */
  virtual void spend(Nanoseconds host_time) = 0;
  /** @brief Lets the executor run another actor. */
  virtual void yield() = 0;

  /**
   * @brief Informs `observer` of spawn, join and conditions from now on; nullptr ends it.
   *
   * The observer is not owned. Call it while no other actor runs.
   */
  void observe_host_order(HostOrderObserver* observer) noexcept { observer_ = observer; }

  /**
   * @brief Reports an order that the caller's own lock `object` creates to the observer, if one is
   *        set.
   */
  void released(const void* object) const {
    if (observer_ != nullptr) observer_->released(reinterpret_cast<std::uintptr_t>(object));
  }
  /**
   * @brief Reports the other end of that order: the caller comes after all earlier `released`
   *        calls.
   */
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
