#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "millrace/device/device.hpp"
#include "millrace/device/executor.hpp"
#include "millrace/device/virtual_machine.hpp"

namespace millrace {

/** @brief The device that a name refers to. */
struct DeviceDescription {
  std::string name;   ///< "virtual:h200", "cuda:0"
  std::string title;  ///< "NVIDIA H200 SXM, 141 GB HBM3e"
  std::size_t memory_bytes;
  bool modeled;  ///< times are modeled, not measured
};

/**
 * @brief Finds a device by name, without opening it.
 * @param name  "virtual:PROFILE", with one of `DeviceProfile::names()`, or "cuda:N"
 * @throws std::invalid_argument that lists the devices, or says why a GPU does not exist
 */
[[nodiscard]] DeviceDescription find_device(std::string_view name);

/** @brief How a RunDevice is opened. */
struct RunDeviceOptions {
  /// Maximum number of operations queued on a virtual device; 0: the profile's value. It cannot be
  /// set for a GPU.
  unsigned run_ahead = 0;
  bool data = false;  ///< whether a virtual device runs host kernels on real data
};

/** @brief The device of one run, and the executor of the run's host actors. */
class RunDevice {
 public:
  virtual ~RunDevice() = default;
  [[nodiscard]] virtual Device& device() noexcept = 0;
  [[nodiscard]] virtual Executor& executor() noexcept = 0;
  /** @brief The machine of a virtual device; nullptr for a GPU. */
  [[nodiscard]] virtual VirtualMachine* machine() noexcept = 0;

  /** @brief Opens a device. @throws std::invalid_argument as find_device; DeviceError */
  [[nodiscard]] static std::unique_ptr<RunDevice> open(std::string_view name,
                                                       const RunDeviceOptions& options);
};

}  // namespace millrace
