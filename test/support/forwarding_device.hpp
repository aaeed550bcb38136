#pragma once

#include "millrace/device/forwarding_device.hpp"
#include "millrace/device/virtual_device.hpp"

namespace millrace::test {

/// Hands everything on to a virtual device. For those that change a little.
class ForwardingDevice : public millrace::ForwardingDevice {
 public:
  explicit ForwardingDevice(VirtualDevice& device)
      : millrace::ForwardingDevice(device), device_(device) {}

 protected:
  VirtualDevice& device_;
};

}  // namespace millrace::test
