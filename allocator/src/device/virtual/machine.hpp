#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "device/virtual/actors.hpp"
#include "device/virtual/handles.hpp"
#include "device/virtual/memory.hpp"
#include "device/virtual/schedule.hpp"
#include "device/virtual/work.hpp"
#include "millrace/device/virtual_machine.hpp"

namespace millrace::simulation {

/** @brief The state that the devices of a machine share: actors, clock, handles, pinned memory. */
class Machine {
 public:
  explicit Machine(const VirtualMachine::Options& options);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  VirtualDevice& add_device(const VirtualDevice::Options& options);

  /** @brief Adds `item` at the end of `stream`. The caller has made sure of room. */
  void submit(StreamState& stream, std::shared_ptr<WorkItem> item);
  /** @brief Blocks the calling actor until all `items` are done. */
  void await(Schedule::Items items, const std::string& what);

  // The schedules call these.
  /** @brief Notes that `item` occupies its engine from now on. */
  void begin(WorkItem& item, Nanoseconds when);
  /**
   * @brief Ends `item`, the first of its stream: applies its effect and wakes waiting actors.
   * @return the streams whose first item waited for it
   */
  std::vector<StreamState*> end(WorkItem& item, Nanoseconds when);
  /** @brief Gives a callback to its device's actor, which starts it at `when` or later. */
  void call_back(const std::shared_ptr<WorkItem>& item, Nanoseconds when);
  void open(WorkItem& gate);
  /** @brief Begins all parts of a meeting. All of them are at the heads of their streams. */
  void begin(MeetingState& meeting, Nanoseconds when);
  /**
   * @brief Applies the effect of a meeting and ends all its parts.
   * @return the streams whose first item waited for one of them
   */
  std::vector<StreamState*> end(MeetingState& meeting, Nanoseconds when);

  [[nodiscard]] DeviceModel* device_of(const void* address) const noexcept;
  /** @brief Returns whether this is pageable host memory. */
  [[nodiscard]] bool pageable(const void* address) const noexcept;
  [[nodiscard]] static bool pageable(const VirtualDevice& device, const void* address) noexcept;
  [[nodiscard]] bool observed() const noexcept { return !timelines.empty(); }

  const VirtualMachine::Options options;
  HandleTable<StreamState> stream_handles{0x5354'0000'0000};
  HandleTable<EventState> event_handles{0x4556'0000'0000};
  PinnedMemory pinned;
  std::unique_ptr<Schedule> schedule;
  Actors actors;
  std::vector<TimelineObserver*> timelines;
  std::uint64_t next_stream_id = 1;
  std::uint64_t next_index = 0;

 private:
  void report(const WorkItem& item) const;
  void drain();

  std::vector<std::unique_ptr<VirtualDevice>> devices_;
  int exceptions_at_start_;
};

}  // namespace millrace::simulation
