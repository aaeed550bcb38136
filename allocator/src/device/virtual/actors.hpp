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

/** @brief The actor that has it runs. Sleeps at once: a std::semaphore first yields the processor
 * over and over, for a baton that takes as long as another thread's turn. */
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

/** @brief A host thread of the machine. Runs only while it has the baton. */
struct Actor {
  enum class State { ready, blocked, finished };

  Actor(unsigned number, std::string called, Nanoseconds start)
      : id(number), name(std::move(called)), clock(start) {}

  unsigned id;
  std::string name;
  Nanoseconds clock;
  State state = State::ready;
  bool service = false;  ///< belongs to a device: runs callbacks, and may wait for ever

  std::string waits_for;
  std::uint64_t wait = 0;  ///< number of this wait: older wake-ups are stale
  std::vector<std::shared_ptr<WorkItem>> awaited;  ///< work whose end ends this wait
  std::size_t awaited_left = 0;
  class DeviceModel* room_on = nullptr;  ///< the device whose launch queue is full
  std::uint64_t stuck_at = 0;            ///< adversarial: nothing could be run for it since then

  std::exception_ptr pending;  ///< thrown where it waits, or at its next checkpoint
  std::exception_ptr error;    ///< what it ended with
  std::vector<std::pair<Actor*, std::uint64_t>> joiners;
  Baton baton;
  std::thread thread;
};

/** @brief Ends an actor that the machine does not wait for. Not a std::exception. */
struct ActorCancelled {};

/** @brief Chooses the actor that runs next, and advances the devices as far as necessary. */
class Picker {
 public:
  virtual ~Picker() = default;
  /** @brief The next actor; nullptr if none can run. `running` may be ready, blocked or finished.
   */
  virtual Actor* next(Actor& running) = 0;
  /** @brief Why the wait of a blocked actor does not end, for the message of a deadlock. */
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

  /** @brief The calling thread's actor. @throws std::logic_error if it is none of this machine */
  [[nodiscard]] Actor& current();
  [[nodiscard]] Actor* current_or_null() noexcept;
  /** @brief Those that have not ended, by id. */
  [[nodiscard]] const std::vector<Actor*>& live() const noexcept { return live_; }

  /** @brief Adds to the caller's clock; another actor may run then. */
  void charge(Nanoseconds host_time);
  void checkpoint();
  /** @brief Gives the baton away until the caller is woken. */
  void block(Actor& caller, std::string waits_for);
  void wake(Actor& actor, Nanoseconds not_before);
  /** @brief An actor of a device: never named in a deadlock, ended with the machine. */
  Actor& spawn_service(std::string name, std::function<void()> body);
  /** @brief The calling thread becomes actor 0, if it is no actor: that of a thread which is gone.
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
  const std::uint64_t serial_;  ///< unique, since a machine may reuse the address of an earlier one
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
