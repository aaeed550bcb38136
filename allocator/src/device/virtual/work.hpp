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

#include "millrace/device/device.hpp"
#include "millrace/device/operation.hpp"
#include "millrace/device/timeline.hpp"

namespace millrace::simulation {

class DeviceModel;
struct Actor;
struct MeetingState;
struct StreamState;

/** @brief The time that a piece of work takes alone, and its share of the machine in that time. */
struct Demand {
  double fixed = 0;   ///< ns that do not depend on other work
  double shared = 0;  ///< ns if no other work shares the machine
  /**
   * The parts, 0 to 1, that it uses during `shared` of what kernels share: peak rate, memory
   * bandwidth, and the link to the device and from it.
   */
  std::array<double, 4> shares{};

  [[nodiscard]] Nanoseconds alone() const noexcept;
};

/**
 * @brief One operation that was enqueued on a stream. Its stream, its event and its waiters keep
 *        it.
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
  bool open = false;              ///< for gates
  StreamState* stream = nullptr;  ///< valid until it is done
  std::uint64_t sequence = 0;     ///< number on its stream, from 1
  std::uint64_t index = 0;        ///< number on the machine, from 0
  Nanoseconds enqueued{0};
  Nanoseconds ready_from{0};  ///< when the device can start it
  Nanoseconds begin{0};
  Nanoseconds end{0};
  Demand demand;
  std::vector<std::shared_ptr<WorkItem>> after;  ///< also waits for these, of other streams
  std::vector<StreamState*> held_streams;        ///< streams whose first item waits for this one
  std::vector<std::pair<Actor*, std::uint64_t>> waiting_actors;
  std::string name;
  std::vector<View> views;
  Cost cost;                     ///< the declared cost of a kernel
  std::function<void()> effect;  ///< what it does to data; may be empty
  std::shared_ptr<MeetingState> meeting;

  [[nodiscard]] bool done() const noexcept { return phase == Phase::done; }
};

/**
 * @brief The frees in the driver's pool that are known to happen before now: stream id to count.
 */
using FreeClock = std::map<std::uint64_t, std::uint64_t>;

struct StreamState {
  std::uint64_t id = 0;
  DeviceModel* device = nullptr;
  std::string name;
  int priority = 0;
  bool blocking = true;
  bool legacy = false;
  CaptureStatus capture = CaptureStatus::none;
  bool destroyed = false;
  std::uint64_t enqueued = 0;
  std::uint64_t first_use = 0;  ///< order in which streams were first used, from 1; 0: never
  Nanoseconds last_end{0};
  std::deque<std::shared_ptr<WorkItem>> queue;  ///< items that are not done
  std::uint64_t frees = 0;
  FreeClock frees_before;
  std::int64_t rank = 0;  ///< adversarial: the stream with the highest rank runs first
};

struct EventState {
  DeviceModel* device = nullptr;
  bool timed = false;
  std::shared_ptr<WorkItem> recorded;
  FreeClock frees_before;
};

}  // namespace millrace::simulation
