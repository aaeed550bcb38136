#pragma once

#include <exception>
#include <string>
#include <utility>

#include "millrace/device/ordered_device.hpp"

namespace millrace {

/** @brief Owns a stream that exists in the ledger only (`OrderedDevice::open_nominal`). */
class NominalStream {
 public:
  NominalStream(OrderedDevice& device, std::string name)
      : device_(&device), ref_(device.open_nominal(std::move(name))) {}
  ~NominalStream() {
    try {
      close(true);
    } catch (const std::exception&) {  // the ledger keeps an entry
    }
  }
  NominalStream(const NominalStream&) = delete;
  NominalStream& operator=(const NominalStream&) = delete;

  [[nodiscard]] StreamRef ref() const noexcept { return ref_; }

  /**
   * @brief Closes the stream, while the device exists. Later calls do nothing.
   * @param idle  as for OrderedDevice::close_nominal
   */
  void close(bool idle) {
    OrderedDevice* const device = std::exchange(device_, nullptr);
    if (device != nullptr) device->close_nominal(ref_, idle);
  }

 private:
  OrderedDevice* device_;
  const StreamRef ref_;
};

}  // namespace millrace
