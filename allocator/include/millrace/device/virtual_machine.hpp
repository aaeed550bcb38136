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

/**
 * @brief The error if every actor waits and no device work can end. The message lists what each
 *        waits for.
 */
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/**
 * @brief A deterministic machine within the process: a virtual clock, host actors and virtual
 *        devices.
 *
 * The thread that made the object is actor 0; `executor()` makes the others. One actor runs at a
 * time, so a run can be repeated exactly: the same program and seed give the same addresses (as
 * offsets), the same order and the same virtual times. Only actors may use the devices; another
 * thread gets a DeviceError.
 *
 * Schedules
 * - `timed` is a discrete-event simulation with the devices' profiles. The actor with the smallest
 *   clock runs; the devices have advanced to exactly that time.
 * - `adversarial` executes device work only when an actor must wait for it, and then only the work
 *   that this wait needs, in an order drawn from the seed. Streams have priorities that change at
 *   random points. With three of four seeds, one stream is starved: it runs only when no other
 *   stream can run. The seed also chooses actors and the answers of queries. Operations run one at
 *   a time, each for the time that it takes alone.
 *
 * Another actor may run at each device call. A lock that is held across a device call, and that
 * other actors take too, must be a `Mutex` (millrace/device/mutex.hpp): waiting for a std::mutex
 * or an AdaptiveMutex there would stop the machine.
 */
class VirtualMachine {
 public:
  enum class Schedule { timed, adversarial };  ///< described above

  /** @brief How the machine orders work. */
  struct Options {
    Schedule schedule = Schedule::timed;
    std::uint64_t seed = 0;                          ///< for the adversarial schedule
    std::size_t host_memory = std::size_t{1} << 38;  ///< available pinned memory, in bytes
  };

  VirtualMachine();
  explicit VirtualMachine(const Options& options);
  /**
   * @brief Opens all gates, runs all enqueued work, and unwinds actors that have not ended.
   *
   * Does not run enqueued work if it is called during the unwinding of an exception. Call it on the
   * thread that made the object, or on any thread after that one has ended.
   */
  ~VirtualMachine();
  VirtualMachine(const VirtualMachine&) = delete;
  VirtualMachine& operator=(const VirtualMachine&) = delete;

  /** @brief Adds a device, which uses this machine's clock and lives as long as the machine. */
  VirtualDevice& add_device(const VirtualDevice::Options& options = {});

  /**
   * @brief Makes a collective for streams of this machine's devices.
   * @param parties  number of streams that take part, all of them different
   * @param effect   moves the data
   * @throws std::invalid_argument if `parties` is 0
   */
  [[nodiscard]] std::shared_ptr<Meeting> make_meeting(unsigned parties, Meeting::Effect effect);

  /** @brief Returns the executor, which makes further actors. */
  [[nodiscard]] Executor& executor() noexcept;

  /** @brief The time on the calling actor's clock. */
  [[nodiscard]] Nanoseconds now();

  /** @brief An actor of this machine. */
  struct CallingActor {
    unsigned id = 0;        ///< in order of creation, from 0
    std::string_view name;  ///< valid as long as the machine lives
    Nanoseconds clock{0};
  };
  /** @brief The actor of the calling thread; std::nullopt if it is not an actor of this machine. */
  [[nodiscard]] std::optional<CallingActor> calling_actor() noexcept;

  /** @brief Adds an observer, which is not owned. Call it while no work is enqueued. */
  void add_timeline(TimelineObserver& observer);
  void remove_timeline(TimelineObserver& observer);

 private:
  std::unique_ptr<simulation::Machine> machine_;
};

}  // namespace millrace
