#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/experiment/exposure.hpp"

namespace millrace::experiment {

/** @brief The two kinds of work that a training loop's clock distinguishes. */
enum class Lane : unsigned char {
  main,  ///< work of the main stream
  copy,  ///< copies of batches to the device
};

/** @brief Measures the times of a loop's work. The loop calls `begin` and `end` for each piece. */
class LoopClock {
 public:
  virtual ~LoopClock() = default;
  virtual void begin(Lane, StreamHandle) {}
  virtual void end(Lane, StreamHandle) {}
  /** @brief The time of each piece, in the order of calls. Synchronize the device first. */
  [[nodiscard]] virtual std::vector<TimeSpan> times(Lane lane) = 0;
  /** @brief Number of driver calls of the clock itself. */
  [[nodiscard]] virtual std::uint64_t own_calls(Call) const { return 0; }
};

/** @brief Records a pair of timed events for each piece. It works on every device, but adds driver
 *         calls. */
class EventClock final : public LoopClock {
 public:
  explicit EventClock(Device& device) : device_(device) {}
  ~EventClock() override;
  EventClock(const EventClock&) = delete;
  EventClock& operator=(const EventClock&) = delete;

  void begin(Lane lane, StreamHandle stream) override;
  void end(Lane lane, StreamHandle stream) override;
  std::vector<TimeSpan> times(Lane lane) override;
  [[nodiscard]] std::uint64_t own_calls(Call call) const override;

 private:
  [[nodiscard]] EventHandle stamp(StreamHandle stream);

  struct Pair {
    EventHandle begin, end;
  };
  Device& device_;
  std::array<std::vector<Pair>, 2> pairs_;
  std::uint64_t stamps_ = 0;
};

/** @brief Uses the timeline of a virtual machine. It adds no driver calls. */
class TimelineClock final : public LoopClock, private TimelineObserver {
 public:
  /** @param main  name of the main stream */
  TimelineClock(VirtualMachine& machine, std::string main);
  ~TimelineClock() override;
  TimelineClock(const TimelineClock&) = delete;
  TimelineClock& operator=(const TimelineClock&) = delete;

  std::vector<TimeSpan> times(Lane lane) override;

 private:
  void executed(const ExecutedOperation& operation) override;

  VirtualMachine& machine_;
  std::string main_;
  std::array<std::vector<TimeSpan>, 2> times_;
};

}  // namespace millrace::experiment
