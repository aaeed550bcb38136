#pragma once

#include <new>

#include "millrace/device/error.hpp"

namespace millrace::capture {

/** @brief Calls `call`. @return true if the driver reported no error */
template <typename Function>
[[nodiscard]] bool succeeds(Function&& function) {
  try {
    function();
    return true;
  } catch (const DeviceError&) {
  } catch (const std::bad_alloc&) {
  }
  return false;
}

}  // namespace millrace::capture
