#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "millrace/device/executor.hpp"
#include "millrace/device/mutex.hpp"
#include "millrace/device/virtual_machine.hpp"

namespace millrace::simulation {

struct WorkItem;

/**
 * @brief The right to run: only the actor that has it runs. A waiting thread sleeps at once; a
 *        std::semaphore would first yield the processor many times, and a turn of another thread is
 *        long.
 */
class Baton {
 public:
  void release() {
    {
      const std::lock_guard lock{mutex_};
      here_ = true;
    }
    changed_.notify_one();
  }
  void acquire() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return here_; });
    here_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool here_ = false;
};

/** @brief A host thread of the machine. It runs only while it has the baton. */
struct Actor {
  enum class State { ready, blocked, finished };

  Actor(unsigned number, std::string called, Nanoseconds start)
      : id(number), name(std::move(called)), clock(start) {}

  unsigned id;
  std::string name;
  Nanoseconds clock;
  State state = State::ready;
  bool service = false;  ///< belongs to a device: runs callbacks, and may wait forever

  std::string waits_for;
  std::uint64_t wait = 0;  ///< number of this wait; wake-ups with an older number are ignored
  std::vector<std::shared_ptr<WorkItem>> awaited;  ///< the wait ends with all of this work
  std::size_t awaited_left = 0;
  class DeviceModel* room_on = nullptr;  ///< the device whose launch queue is full
  std::uint64_t stuck_at = 0;            ///< adversarial: no work could run for it since then

  std::exception_ptr pending;  ///< thrown at the place where it waits, or at its next checkpoint
  std::exception_ptr error;    ///< the exception that ended it
  std::vector<std::pair<Actor*, std::uint64_t>> joiners;
  Baton baton;
  std::thread thread;
};

/** @brief Ends an actor that the machine does not wait for. Not a std::exception. */
struct ActorCanceled {};

/** @brief Chooses the actor that runs next, and advances the devices as far as necessary. */
class Picker {
 public:
  virtual ~Picker() = default;
  /**
   * @brief Returns the next actor; nullptr if none can run. `running` may be ready, blocked or
   *        finished.
   */
  virtual Actor* next(Actor& running) = 0;
  /** @brief Explains why a blocked actor's wait does not end, for the message of a deadlock. */
  [[nodiscard]] virtual std::string explain(const Actor& actor) const = 0;
};

/** @brief The executor of a virtual machine: threads that pass a baton. */
class Actors final : public Executor {
 public:
  explicit Actors(Picker& picker);
  ~Actors() override;

  [[nodiscard]] std::unique_ptr<Task> spawn(std::string name, std::function<void()> body) override;
  [[nodiscard]] std::unique_ptr<Condition> make_condition() override;
  [[nodiscard]] Nanoseconds now() override { return current().clock; }
  void spend(Nanoseconds host_time) override { charge(host_time); }
  void yield() override;

  /**
   * @brief Returns the calling thread's actor.
   * @throws std::logic_error if the thread is not an actor of this machine
   */
  [[nodiscard]] Actor& current();
  [[nodiscard]] Actor* current_or_null() noexcept;
  /** @brief Returns the actors that have not ended, by id. */
  [[nodiscard]] const std::vector<Actor*>& live() const noexcept { return live_; }

  /** @brief Adds to the caller's clock. Another actor may run then. */
  void charge(Nanoseconds host_time);
  void checkpoint();
  /** @brief Passes the baton until another actor wakes the caller. */
  void block(Actor& caller, std::string waits_for);
  void wake(Actor& actor, Nanoseconds not_before);
  /**
   * @brief Starts an actor of a device. A deadlock never names it, and it ends with the machine.
   */
  Actor& spawn_service(std::string name, std::function<void()> body);
  /**
   * @brief Makes the calling thread actor 0 if it is not an actor: the thread of actor 0 has ended.
   */
  void adopt_thread();
  /** @brief Ends all other actors by an exception and waits for them. */
  void cancel_all();

  void wait_for_lock(const void* mutex);
  void notify_lock(const void* mutex);

 private:
  class SpawnedTask;
  class MachineCondition;

  Actor& add(std::string name, Nanoseconds clock);
  Actor& start(std::string name, std::function<void()> body, bool service);
  void run(Actor& actor, std::function<void()> body);
  void pass_baton(Actor& from);
  Actor& pick(Actor& running);
  Actor& break_deadlock();
  void finish(Actor& actor);
  void cancel(Actor& actor);
  void join(Actor& actor);
  void join_quietly(Actor& actor) noexcept;
  static void throw_pending(Actor& actor);

  Picker& picker_;
  const std::uint64_t serial_;  ///< unique; a machine may reuse the address of an earlier one
  std::vector<std::unique_ptr<Actor>> all_;
  std::vector<Actor*> live_;
  struct LockWait {
    const void* mutex;
    Actor* actor;
    std::uint64_t wait;
  };
  std::vector<LockWait> lock_waits_;
};

}  // namespace millrace::simulation
