#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/device/device.hpp"
#include "millrace/device/executor.hpp"
#include "millrace/device/virtual_machine.hpp"

namespace millrace {

/** @brief A device that a name stands for. */
struct DeviceDescription {
  std::string name;   ///< "virtual:h200", "cuda:0"
  std::string title;  ///< "NVIDIA H200 SXM, 141 GB HBM3e"
  std::size_t memory_bytes;
  bool modelled;  ///< times are modelled, not measured
};

/**
 * @brief Looks a device up by its name; opens nothing.
 * @param name  "virtual:PROFILE", with one of `DeviceProfile::names()`, or "cuda:N"
 * @throws std::invalid_argument that lists the devices there are; for a GPU, why there is none
 */
[[nodiscard]] DeviceDescription find_device(std::string_view name);

struct RunDeviceOptions {
  /** Operations queued on a virtual device at most; 0: the profile's bound. A GPU's queue cannot be
   * set. */
  unsigned run_ahead = 0;
  bool data = false;  ///< a virtual device runs host kernels
};

/** @brief A device that one run has for itself, and the executor of the run's host actors. */
class RunDevice {
 public:
  virtual ~RunDevice() = default;
  [[nodiscard]] virtual Device& device() noexcept = 0;
  [[nodiscard]] virtual Executor& executor() noexcept = 0;
  /** @return the machine of a virtual device; null for a GPU */
  [[nodiscard]] virtual VirtualMachine* machine() noexcept = 0;

  /** @throws std::invalid_argument as find_device; DeviceError */
  [[nodiscard]] static std::unique_ptr<RunDevice> open(std::string_view name,
                                                       const RunDeviceOptions& options);
};

}  // namespace millrace
