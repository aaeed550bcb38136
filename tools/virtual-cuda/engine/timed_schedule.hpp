#pragma once

#include <map>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/schedule.hpp"

namespace millrace::virtual_cuda {

/** @brief How long a call that need not wait still waits for a host function that it starts. */
[[nodiscard]] Engine::Patience patience_for(const Operation& operation) noexcept;

/**
 * @brief Virtual time from a device profile.
 *
 * The process has one clock. A call advances it by the call's host time, and a wait advances it to
 * the end of the operation. An operation's begin and end are planned when it is enqueued. It begins
 * when the operations that it waits for have ended and, for a copy, when its copy engine is free.
 * Kernels whose cost in flops or bytes is known take turns.
 * An operation takes effect when the clock reaches its end. The program's own computing time does
 * not count, so that a run can be repeated exactly.
 */
class TimedSchedule final : public Schedule {
 public:
  TimedSchedule(Engine& engine, const DeviceProfile& profile);

  void enqueued(Lock& lock, const OperationRef& operation) override;
  void plan(const OperationRef& operation) override;
  void delayed() override;
  void finished(const Operation& operation) override;
  void settle(Lock& lock) override;
  bool query(Lock& lock, const OperationRef& operation) override;
  void waited(Lock& lock, const Operation& operation) override;
  std::size_t choose(const std::vector<Operation*>& ready) override;
  void spend(Call call) override;
  void stamp(Operation&) override {}
  Nanoseconds now() const override { return now_; }

 private:
  using Due = std::map<std::pair<Nanoseconds, std::uint64_t>, OperationRef>;

  [[nodiscard]] Nanoseconds duration(const Work& work) const;
  /** @param from  the earliest virtual time at which the operation may begin */
  void plan(const OperationRef& operation, Nanoseconds from);
  [[nodiscard]] Nanoseconds begin_after(const Operation& operation, Nanoseconds from) const;
  void settle_once(Lock& lock);

  DeviceProfile profile_;
  Nanoseconds now_{0};
  Due due_;
  bool delayed_ = false;  ///< an operation was delayed since `settle_once` began
  std::map<std::pair<unsigned, std::size_t>, Nanoseconds> engine_free_;
};

}  // namespace millrace::virtual_cuda
