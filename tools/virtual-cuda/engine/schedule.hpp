#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/operation.hpp"
#include "engine/settings.hpp"

namespace millrace::virtual_cuda {

class Engine;
using Lock = std::unique_lock<std::mutex>;

/**
 * @brief Decides when enqueued work takes effect. Called under the engine's lock.
 *
 * A schedule decides only among what is legal: the engine never runs an operation before everything
 * that it waits for.
 */
class Schedule {
 public:
  explicit Schedule(Engine& engine) noexcept : engine_{&engine} {}
  virtual ~Schedule() = default;
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /** @brief An operation was enqueued. */
  virtual void enqueued(Lock& lock, const OperationRef& operation) = 0;
  /** @brief An operation was added by one that is running. It is not to run yet. */
  virtual void plan(const OperationRef&) {}
  /** @brief An operation has to wait for more than when it was enqueued. */
  virtual void delayed() {}
  /** @brief An operation that was enqueued or planned is done. */
  virtual void finished(const Operation&) {}
  /** @brief Runs what is due; also called when a host function has returned. */
  virtual void settle(Lock& lock) = 0;
  /** @brief A thread asks whether `operation` is done: may run it first. */
  [[nodiscard]] virtual bool query(Lock& lock, const OperationRef& operation) = 0;
  /** @brief A thread waits for `operation`, and then returns to the program. */
  virtual void waited(Lock&, const Operation&) {}
  /** @brief Which of these operations, all of them ready, is next; the index. */
  [[nodiscard]] virtual std::size_t choose(const std::vector<Operation*>& ready) = 0;
  /** @brief Host time that a call of this kind takes passes. */
  virtual void spend(Call) {}
  /** @brief Virtual time at which an operation that runs now ends. */
  virtual void stamp(Operation& operation) = 0;
  [[nodiscard]] virtual Nanoseconds now() const = 0;

 protected:
  [[nodiscard]] Engine& engine() const noexcept { return *engine_; }

 private:
  Engine* engine_;
};

[[nodiscard]] std::unique_ptr<Schedule> make_schedule(Engine& engine, const Settings& settings,
                                                      const DeviceProfile& profile);

}  // namespace millrace::virtual_cuda
