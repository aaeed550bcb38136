#pragma once

#include <chrono>

#include "millrace/device/executor.hpp"

namespace millrace {

/**
 * @brief An executor whose actors are threads. Its clock is the steady clock since construction.
 *
 * `spend` sleeps, and spins for the last 100 us. The destructor of a task joins it and ignores
 * exceptions of the actor. The executor must outlive its tasks and conditions.
 */
class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor();

  [[nodiscard]] std::unique_ptr<Task> spawn(std::string name, std::function<void()> body) override;
  [[nodiscard]] std::unique_ptr<Condition> make_condition() override;
  [[nodiscard]] Nanoseconds now() override;
  void spend(Nanoseconds host_time) override;
  void yield() override;

 private:
  class ThreadTask;
  class ThreadCondition;

  std::chrono::steady_clock::time_point epoch_;
};

}  // namespace millrace
