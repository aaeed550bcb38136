#include "observe/explain/device_log.hpp"

#include <map>
#include <utility>

namespace millrace {

std::vector<DeviceLog> devices_of(const trace::AllocationLog& log) {
  std::map<std::uint32_t, DeviceLog> devices;
  const auto at = [&](std::uint32_t device) -> DeviceLog& {
    DeviceLog& found = devices[device];
    found.device = device;
    return found;
  };
  for (std::uint32_t device = 0; device < log.initial.size(); ++device) {
    if (!log.initial[device].segments.empty()) (void)at(device);
  }
  for (std::uint32_t i = 0; i < log.blocks.size(); ++i) {
    if (log.blocks[i].live_at_start) at(log.blocks[i].device).start_blocks.push_back(i);
  }
  for (std::uint32_t i = 0; i < log.events.size(); ++i)
    at(log.events[i].device).events.push_back(i);
  std::vector<DeviceLog> result;
  for (auto& [number, device] : devices) result.push_back(std::move(device));
  return result;
}

}  // namespace millrace
