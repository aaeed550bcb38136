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
  /** @brief A running operation added this operation, which must not run yet. */
  virtual void plan(const OperationRef&) {}
  /** @brief A pending operation must wait for one more operation. */
  virtual void delayed() {}
  /** @brief An operation that was enqueued or planned is done. */
  virtual void finished(const Operation&) {}
  /** @brief Runs the operations that are due. Also called when a host function has returned. */
  virtual void settle(Lock& lock) = 0;
  /** @brief The answer to a query: whether `operation` is done. May run it first. */
  [[nodiscard]] virtual bool query(Lock& lock, const OperationRef& operation) = 0;
  /** @brief A thread has waited for `operation` and returns to the program next. */
  virtual void waited(Lock&, const Operation&) {}
  /** @brief The index of the operation that runs next. All of `ready` may run. */
  [[nodiscard]] virtual std::size_t choose(const std::vector<Operation*>& ready) = 0;
  /** @brief Adds the host time of a call to the clock. */
  virtual void spend(Call) {}
  /** @brief Sets the begin and end of an operation that runs now, unless they were planned. */
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
