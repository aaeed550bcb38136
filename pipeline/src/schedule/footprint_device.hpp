#pragma once

#include <memory>
#include <string_view>

#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"

namespace millrace {

/** @brief A device for one cell, with the clock that its loop is timed by. */
class CellDevice {
 public:
  virtual ~CellDevice() = default;
  [[nodiscard]] virtual Device& device() = 0;
  [[nodiscard]] virtual LoopClock& clock() = 0;
  /** @brief What a loop has to see to itself: see LoopSetting. */
  [[nodiscard]] virtual unsigned most_launches_ahead() const = 0;

  /** @brief To what this is: the machine's work, if it is modelled, and the calls of hosts. */
  virtual void attach(Timeline& timeline) = 0;

  /** @param run_ahead  operations queued at most; 0: as many as the device takes
   *  @throws std::invalid_argument, DeviceError as footprint_device */
  [[nodiscard]] static std::unique_ptr<CellDevice> open(std::string_view name, unsigned run_ahead);
};

}  // namespace millrace
