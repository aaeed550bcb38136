#include "device/virtual/work_items.hpp"

#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <stdexcept>
#include <utility>

#include "device/virtual/device_model.hpp"
#include "device/virtual/meeting_state.hpp"
#include "device/virtual/placed_views.hpp"

namespace millrace::simulation {
namespace {

constexpr double kNanosecondsInSecond = 1e9;

struct CopyShape {
  const char* name;
  bool from_device;
  bool to_device;
  Engine engine;
};

constexpr CopyShape kShapes[] = {
    {"h2d", false, true, Engine::host_to_device},
    {"d2h", true, false, Engine::device_to_host},
    {"d2d", true, true, Engine::compute},
    {"h2h", false, false, Engine::host},
};

const CopyShape& shape_of(CopyKind kind) { return kShapes[static_cast<int>(kind)]; }

[[noreturn]] void refuse_place(Call call, const char* name, const char* end, const char* where) {
  throw DeviceError(ErrorCode::invalid_argument, to_string(call),
                    fmt::format("the {} of {} is {}", end, name, where));
}

PlacedViews places(const DeviceModel& device, const Operation& operation) {
  PlacedViews views;
  for (const View& view : operation.views) {
    if (view.bytes == 0) {
      views.emplace_back(Place{}, View{});
      continue;
    }
    const Place place = device.place(view.address, view.bytes, Call::launch);
    if (place.device == nullptr && !place.pinned) {
      refuse_place(Call::launch, operation.name.c_str(), "view", "pageable host memory");
    }
    views.emplace_back(place, view);
  }
  return views;
}

bool has_data(const Place& place) { return place.device == nullptr || place.device->data; }

Demand demand_of(const DeviceModel& device, const Copy& copy, const Place& to, const Place& from) {
  const DeviceProfile& profile = device.profile;
  if (pageable(device, copy) || copy.kind == CopyKind::host_to_host) {
    return device.copy_demand(copy.bytes, profile.pageable);
  }
  if (copy.kind == CopyKind::host_to_device) {
    return device.copy_demand(copy.bytes, profile.host_to_device);
  }
  if (copy.kind == CopyKind::device_to_host) {
    return device.copy_demand(copy.bytes, profile.device_to_host);
  }
  if (to.device != from.device) return device.copy_demand(copy.bytes, profile.peer_to_peer);
  return device.local_copy_demand(copy.bytes);
}

/** Makes the item of an operation, and finds the places of its views for the item's effect. */
std::pair<std::shared_ptr<WorkItem>, PlacedViews> operation_item(DeviceModel& device,
                                                                 WorkItem::Kind kind, Engine engine,
                                                                 Operation& operation) {
  auto item = make_item(kind, "", engine);
  item->demand = device.kernel_demand(operation.cost);
  PlacedViews views = places(device, operation);
  item->name = std::move(operation.name);
  item->cost = operation.cost;
  if (device.machine.observed()) item->views = std::move(operation.views);
  return {std::move(item), std::move(views)};
}

}  // namespace

std::span<std::byte> reach(const Place& place, const View& view) {
  const auto gone = [&](const char* what) -> std::runtime_error {
    return std::runtime_error(fmt::format("{} bytes at {:#x} were freed before it ran ({})",
                                          view.bytes,
                                          reinterpret_cast<std::uintptr_t>(view.address), what));
  };
  if (place.device != nullptr && !place.device->memory.holds(view.address, view.bytes)) {
    throw gone("device memory");
  }
  return {place.data, view.bytes};
}

std::shared_ptr<WorkItem> make_item(WorkItem::Kind kind, const char* name, Engine engine) {
  auto item = std::make_shared<WorkItem>();
  item->kind = kind;
  item->name = name;
  item->engine = engine;
  return item;
}

bool pageable(const DeviceModel& device, const Copy& copy) {
  return device.machine.pageable(copy.to) || device.machine.pageable(copy.from);
}

std::shared_ptr<WorkItem> copy_item(DeviceModel& device, const Copy& copy) {
  const CopyShape& shape = shape_of(copy.kind);
  const Place from = device.place(copy.from, copy.bytes, Call::copy);
  const Place to = device.place(copy.to, copy.bytes, Call::copy);
  if ((from.device != nullptr) != shape.from_device) {
    refuse_place(Call::copy, shape.name, "source",
                 shape.from_device ? "not device memory" : "device memory");
  }
  if ((to.device != nullptr) != shape.to_device) {
    refuse_place(Call::copy, shape.name, "destination",
                 shape.to_device ? "not device memory" : "device memory");
  }
  auto item = make_item(WorkItem::Kind::copy, shape.name, shape.engine);
  item->demand = demand_of(device, copy, to, from);
  const View reads{const_cast<void*>(copy.from), copy.bytes, Access::read};
  const View writes{copy.to, copy.bytes, Access::write};
  if (device.machine.observed()) item->views = {reads, writes};
  if (device.data && has_data(from) && has_data(to)) {
    item->effect = [views = PlacedViews{{from, reads}, {to, writes}}] {
      with_access(views, [](const auto& bytes) {
        std::memmove(bytes[1].data(), bytes[0].data(), bytes[0].size());
      });
    };
  }
  return item;
}

std::shared_ptr<WorkItem> fill_item(DeviceModel& device, const View& range, unsigned char value) {
  const Place place = device.place(range.address, range.bytes, Call::fill);
  if (place.device == nullptr) refuse_place(Call::fill, "fill", "range", "not device memory");
  auto item = make_item(WorkItem::Kind::fill, "fill", Engine::compute);
  item->demand = device.fill_demand(range.bytes);
  if (device.machine.observed()) item->views = {range};
  if (has_data(place)) {
    item->effect = [views = PlacedViews{{place, range}}, value] {
      with_access(views, [value](const auto& bytes) {
        std::memset(bytes[0].data(), value, bytes[0].size());
      });
    };
  }
  return item;
}

std::shared_ptr<WorkItem> kernel_item(DeviceModel& device, Operation operation) {
  auto [item, views] = operation_item(device, WorkItem::Kind::kernel, Engine::compute, operation);
  if (device.data && operation.host) {
    item->effect = [views = std::move(views), host = std::move(operation.host)] {
      with_access(views, [&](const auto& bytes) { host(KernelContext{bytes}); });
    };
  }
  return item;
}

std::shared_ptr<WorkItem> meeting_item(DeviceModel& device, Operation operation) {
  const std::shared_ptr<MeetingState>& meeting = operation.meeting->state_;
  if (operation.host) {
    throw DeviceError(ErrorCode::invalid_argument, to_string(Call::launch),
                      operation.name + " meets others: its effect is the meeting's");
  }
  auto [item, views] = operation_item(device, WorkItem::Kind::meeting, Engine::link, operation);
  meeting->add(operation.party, item, device, std::move(views));
  item->meeting = meeting;
  return item;
}

}  // namespace millrace::simulation
