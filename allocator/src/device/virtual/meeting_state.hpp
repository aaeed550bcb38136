#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/virtual/placed_views.hpp"
#include "device/virtual/work.hpp"
#include "millrace/device/meeting.hpp"

namespace millrace::simulation {

/** @brief A collective, with the parts launched so far. */
struct MeetingState {
  struct Part {
    std::shared_ptr<WorkItem> item;  ///< nullptr until it is launched
    bool at_head = false;            ///< it waits only for the other parts
    PlacedViews views;
  };

  MeetingState(Machine& of, unsigned parties, Meeting::Effect on_data);

  /** @throws DeviceError if the operation cannot be a part of this meeting */
  void add(unsigned party, const std::shared_ptr<WorkItem>& item, DeviceModel& device,
           PlacedViews views);
  [[nodiscard]] bool complete() const noexcept { return come == parts.size(); }
  [[nodiscard]] bool all_at_head() const;
  /** @brief Returns the time of the longest part. */
  [[nodiscard]] Nanoseconds duration() const;
  /** @brief Applies the effect to the data. The devices are lost if it throws. */
  void take_effect();
  void cancel();

  Machine& machine;
  const std::uint64_t serial;
  std::vector<Part> parts;
  std::size_t come = 0;
  bool begun = false;
  bool canceled = false;
  Meeting::Effect effect;
  bool data = true;  ///< whether all devices have data
};

}  // namespace millrace::simulation
