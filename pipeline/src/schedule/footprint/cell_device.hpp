#pragma once

#include <memory>
#include <string_view>

#include "millrace/device/executor.hpp"
#include "millrace/observe/timeline.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"

namespace millrace {

struct CellDeviceOptions {
  unsigned run_ahead = 0;  ///< operations queued at most; 0: as many as the device takes
  bool data = false;       ///< a virtual device runs host kernels
};

/** @brief A device for one run, with the clock that its loop is timed by, and host actors. */
class CellDevice {
 public:
  virtual ~CellDevice() = default;
  [[nodiscard]] virtual Device& device() = 0;
  [[nodiscard]] virtual LoopClock& clock() = 0;
  [[nodiscard]] virtual Executor& executor() = 0;
  /** @brief What a loop has to see to itself: see LoopSetting. */
  [[nodiscard]] virtual unsigned most_launches_ahead() const = 0;

  /** @brief To what this is: the machine's work, if it is modelled, and the calls of hosts. */
  virtual void attach(Timeline& timeline) = 0;

  /** @throws std::invalid_argument, DeviceError as footprint_device */
  [[nodiscard]] static std::unique_ptr<CellDevice> open(std::string_view name,
                                                        const CellDeviceOptions& options);
};

}  // namespace millrace
