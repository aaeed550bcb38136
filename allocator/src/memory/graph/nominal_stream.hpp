#pragma once

#include <exception>
#include <string>
#include <utility>

#include "millrace/device/ordered_device.hpp"

namespace millrace {

/** @brief A stream in name only (`OrderedDevice::open_nominal`), until it is closed. */
class NominalStream {
 public:
  NominalStream(OrderedDevice& device, std::string name)
      : device_(&device), ref_(device.open_nominal(std::move(name))) {}
  ~NominalStream() {
    try {
      close(true);
    } catch (const std::exception&) {  // it stays open: an entry in the ledger
    }
  }
  NominalStream(const NominalStream&) = delete;
  NominalStream& operator=(const NominalStream&) = delete;

  [[nodiscard]] StreamRef ref() const noexcept { return ref_; }

  /** @brief Once, while the device is there; later calls do nothing. `idle`: as `close_nominal`. */
  void close(bool idle) {
    OrderedDevice* const device = std::exchange(device_, nullptr);
    if (device != nullptr) device->close_nominal(ref_, idle);
  }

 private:
  OrderedDevice* device_;
  const StreamRef ref_;
};

}  // namespace millrace
