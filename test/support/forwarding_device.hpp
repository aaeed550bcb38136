#pragma once

#include "millrace/device/forwarding_device.hpp"
#include "millrace/device/virtual_device.hpp"

namespace millrace::test {

/// Passes all calls on to a virtual device. A derived class changes some of them.
class ForwardingDevice : public millrace::ForwardingDevice {
 public:
  explicit ForwardingDevice(VirtualDevice& device)
      : millrace::ForwardingDevice(device), device_(device) {}

 protected:
  VirtualDevice& device_;
};

}  // namespace millrace::test
