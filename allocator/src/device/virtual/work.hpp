#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/operation.hpp"
#include "millrace/device/timeline.hpp"

namespace millrace::simulation {

class DeviceModel;
struct Actor;
struct MeetingState;
struct StreamState;

/** @brief How long a piece of work takes alone, and which share of the machine it then uses. */
struct Demand {
  double fixed = 0;   ///< ns that nothing shortens
  double shared = 0;  ///< ns at full speed, when the machine is not shared
  /** Of what kernels share, during `shared`, 0 to 1: peak rate, memory bandwidth, link to the
   * device and from it. */
  std::array<double, 4> shares{};

  [[nodiscard]] Nanoseconds alone() const noexcept;
};

/** @brief One thing that was enqueued on a stream. Kept by its stream, its event and its waiters.
 */
struct WorkItem {
  enum class Kind : unsigned char {
    kernel,
    copy,
    fill,
    record,
    wait,
    callback,
    gate,
    pool,
    meeting
  };
  enum class Phase : unsigned char { queued, scheduled, running, done };

  Kind kind = Kind::kernel;
  Engine engine = Engine::stream;
  Phase phase = Phase::queued;
  bool open = false;              ///< gates
  StreamState* stream = nullptr;  ///< while not done
  std::uint64_t sequence = 0;     ///< on its stream, from 1
  std::uint64_t index = 0;        ///< on the machine, from 0
  Nanoseconds enqueued{0};
  Nanoseconds ready_from{0};  ///< when the device has it
  Nanoseconds begin{0};
  Nanoseconds end{0};
  Demand demand;
  std::vector<std::shared_ptr<WorkItem>> after;  ///< in addition to the previous item on its stream
  std::vector<StreamState*> held_streams;        ///< their first item waits for this one
  std::vector<std::pair<Actor*, std::uint64_t>> waiting_actors;
  std::string name;
  std::vector<View> views;
  Cost cost;                     ///< as a kernel's was declared
  std::function<void()> effect;  ///< what it does to data; empty if it does nothing
  std::shared_ptr<MeetingState> meeting;

  [[nodiscard]] bool done() const noexcept { return phase == Phase::done; }
};

/** @brief Frees in the driver's pool that are known to be before now: stream id to count. */
using FreeClock = std::map<std::uint64_t, std::uint64_t>;

struct StreamState {
  std::uint64_t id = 0;
  DeviceModel* device = nullptr;
  std::string name;
  int priority = 0;
  bool blocking = true;
  bool legacy = false;
  bool capturing = false;
  bool destroyed = false;
  std::uint64_t enqueued = 0;
  std::uint64_t first_use = 0;  ///< order in which streams were first used, from 1; 0: never
  Nanoseconds last_end{0};
  std::deque<std::shared_ptr<WorkItem>> queue;  ///< what is not done
  std::uint64_t frees = 0;
  FreeClock frees_before;
  std::int64_t rank = 0;  ///< adversarial: the highest runs first
};

struct EventState {
  DeviceModel* device = nullptr;
  bool timed = false;
  std::shared_ptr<WorkItem> recorded;
  FreeClock frees_before;
};

}  // namespace millrace::simulation
