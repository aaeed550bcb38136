#pragma once

#include <cstddef>
#include <memory>

#include "device/virtual/work.hpp"
#include "millrace/device/device.hpp"
#include "millrace/device/meeting.hpp"

namespace millrace::simulation {

/** @brief Makes an item that moves no data. */
[[nodiscard]] std::shared_ptr<WorkItem> make_item(WorkItem::Kind kind, const char* name,
                                                  Engine engine = Engine::stream);

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  CopyKind kind;
};

/** @brief Returns whether the copy reads or writes memory that is neither a device's nor pinned. */
[[nodiscard]] bool pageable(const DeviceModel& device, const Copy& copy);
/** @throws DeviceError if the addresses do not fit the kind, or are not allocated */
[[nodiscard]] std::shared_ptr<WorkItem> copy_item(DeviceModel& device, const Copy& copy);
[[nodiscard]] std::shared_ptr<WorkItem> fill_item(DeviceModel& device, const View& range,
                                                  unsigned char value);
/** @throws DeviceError if a view is not in memory that kernels can access */
[[nodiscard]] std::shared_ptr<WorkItem> kernel_item(DeviceModel& device, Operation operation);

}  // namespace millrace::simulation
