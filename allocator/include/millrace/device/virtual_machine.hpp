#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "millrace/device/executor.hpp"
#include "millrace/device/meeting.hpp"
#include "millrace/device/timeline.hpp"
#include "millrace/device/virtual_device.hpp"

namespace millrace {

/** @brief Every actor waits and no device work can end: says who waits for what. */
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief A deterministic machine in a process: a virtual clock, host actors, virtual devices.
 *
 * The thread that made it is actor 0; `executor()` makes the others. One actor runs at a time, so
 * a run can be repeated exactly: same program and seed, same addresses (as offsets), same order,
 * same virtual times. Only actors may use the devices; another thread gets a DeviceError.
 *
 * Schedules
 * - `timed` is a discrete-event simulation by the devices' profiles. The actor with the smallest
 *   clock runs; devices have advanced exactly that far.
 * - `adversarial` runs nothing until an actor has to wait for it, and then only what that needs,
 *   in an order drawn from the seed: stream priorities with change points, each stream starved in
 *   turn over the seeds. The seed also picks actors and decides what queries answer. Operations
 *   then run one at a time, each for as long as it takes alone.
 *
 * A device call is a point where another actor may run. Whoever holds a lock across one that other
 * actors take as well uses `Mutex` (millrace/device/mutex.hpp): waiting for a std::mutex there
 * would stop the machine.
 */
class VirtualMachine {
 public:
  enum class Schedule { timed, adversarial };

  struct Options {
    Schedule schedule = Schedule::timed;
    std::uint64_t seed = 0;                          ///< of the adversarial schedule
    std::size_t host_memory = std::size_t{1} << 38;  ///< pinned memory there is, in bytes
  };

  VirtualMachine();
  explicit VirtualMachine(const Options& options);
  /**
   * @brief On the thread that made it, or on any once that has ended. Runs all that is queued
   * (gates open), unless an exception is what ends it; unwinds actors that have not ended.
   */
  ~VirtualMachine();
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;

  /** @brief Another device on this clock. Lives as long as the machine. */
  VirtualDevice& add_device(const VirtualDevice::Options& options = {});

  /**
   * @brief A collective of `parties` streams of this machine's devices, each on another stream.
   * @throws std::invalid_argument if there are no parties
   */
  [[nodiscard]] std::shared_ptr<Meeting> make_meeting(unsigned parties, Meeting::Effect effect);

  [[nodiscard]] Executor& executor() noexcept;
  [[nodiscard]] Schedule schedule() const noexcept;
  [[nodiscard]] std::uint64_t seed() const noexcept;

  /** @brief The calling actor's clock. */
  [[nodiscard]] Nanoseconds now();

  /** @brief Which actor the calling thread is; nothing if it is none of this machine's. */
  struct CallingActor {
    unsigned id = 0;        ///< in the order in which they were made, from 0
    std::string_view name;  ///< lives as long as the machine
    Nanoseconds clock{0};
  };
  [[nodiscard]] std::optional<CallingActor> calling_actor() noexcept;

  /** @brief At most a few; not owned; set while nothing is queued. */
  void add_timeline(TimelineObserver& observer);
  void remove_timeline(TimelineObserver& observer);

 private:
  std::unique_ptr<simulation::Machine> machine_;
};

}  // namespace millrace
