#pragma once

#include "millrace/device/ordered_device.hpp"

namespace millrace {

/** @brief Marks the stream. Without the allocator's lock. */
inline void try_mark(OrderedDevice& device, StreamRef stream) {
  try {
    device.mark(stream);
  } catch (const DeviceError&) {  // no marker: a later one of that stream will cover it
  }
}

}  // namespace millrace
