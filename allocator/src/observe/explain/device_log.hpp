#pragma once

#include <cstdint>
#include <vector>

#include "millrace/observe/trace/allocation_log.hpp"

namespace millrace {

/** @brief The part of a log that belongs to one device. */
struct DeviceLog {
  std::uint32_t device = 0;
  std::vector<std::uint32_t> events;        ///< indices into the log's events
  std::vector<std::uint32_t> start_blocks;  ///< indices of its blocks that are live at the start
};

/** @brief Returns the devices that have blocks, segments or events, in ascending order. */
[[nodiscard]] std::vector<DeviceLog> devices_of(const trace::AllocationLog& log);

}  // namespace millrace
