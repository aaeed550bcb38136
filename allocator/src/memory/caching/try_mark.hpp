#pragma once

#include "millrace/device/ordered_device.hpp"

namespace millrace {

/**
 * @brief Marks the stream, and ignores errors of the driver. Call it without the allocator's lock.
 */
inline void try_mark(OrderedDevice& device, StreamRef stream) {
  try {
    device.mark(stream);
  } catch (const DeviceError&) {  // a later marker of the stream will cover the use
  }
}

}  // namespace millrace
