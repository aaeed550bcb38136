#include "replay/rows.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "cli/figures.hpp"
#include "millrace/interop/device_memory.hpp"
#include "millrace/interop/run_model.hpp"
#include "millrace/memory/out_of_memory.hpp"

namespace millrace::cli {
namespace {

bool has_failures(const trace::AllocationLog& log, std::uint32_t device) {
  return std::ranges::any_of(log.events, [&](const trace::LogEvent& event) {
    return event.device == device && event.kind == trace::EventKind::out_of_memory;
  });
}

/** Also makes the requests that failed. This needs a separate replay, because requests that it
 * serves would change the figures of the row. */
void retry(ReplayRow& row, const trace::AllocationLog& log, std::uint32_t device,
           const ReplayRequest& request) {
  try {
    row.report->retried = replay(log, device,
                                 {.policy = Policy::named(row.allocator),
                                  .device_bytes = request.device_bytes,
                                  .start = row.start,
                                  .bounds = RequestBounds{},
                                  .retries_failed = true,
                                  .ladder = false})
                              .retried;
  } catch (const out_of_memory&) {  // a request fails after one that is served: unknown
  }
}

void run(ReplayRow& row, const trace::AllocationLog& log, std::uint32_t device,
         const ReplayRequest& request, const RequestBounds& bounds) {
  ReplayOptions options{.policy = Policy::named(row.allocator),
                        .device_bytes = request.device_bytes,
                        .start = row.start,
                        .bounds = bounds,
                        .snapshot = request.snapshots && row.start == ReplayStart::live_blocks};
  if (request.traced && row.start == ReplayStart::live_blocks) {
    options.sites = true;
    options.traced = [&](const AllocationTrace& trace, const auto& streams) {
      request.traced(row.allocator, device, trace, streams);
    };
  }
  try {
    row.report = replay(log, device, options);
  } catch (const out_of_memory& error) {
    row.failure = describe(error);
  }
  const bool retries = row.ok() && request.device_bytes > 0 && has_failures(log, device);
  if (retries && row.start == ReplayStart::live_blocks) retry(row, log, device, request);
}

/** Runs all rows with an empty start on the same device size, so that they can be compared. If a
 * row does not fit into the log's size, all rows run again without a limit. */
void run_empty_starts(ReplayedDevice& device, const trace::AllocationLog& log,
                      const RequestBounds& bounds, ReplayRequest request) {
  const auto run_all = [&] {
    request.device_bytes = device.memory.bytes;
    for (ReplayRow& row : device.rows) {
      if (row.start == ReplayStart::recorded) continue;
      row.failure.clear();
      run(row, log, device.device, request, bounds);
    }
  };
  run_all();
  const auto failed =
      std::ranges::find_if(device.rows, [](const ReplayRow& row) { return !row.failure.empty(); });
  if (failed == device.rows.end() || !device.memory.is_recorded()) return;
  device.memory = unlimited(device.memory, failed->name, failed->failure);
  run_all();
}

/** Shares the best layout among all rows, because all rows have the same requests. */
void share_best_packing(ReplayedDevice& device) {
  std::size_t packed = std::numeric_limits<std::size_t>::max();
  for (const ReplayRow& row : device.rows) {
    if (row.ok()) packed = std::min(packed, row.report->packed);
  }
  for (ReplayRow& row : device.rows) {
    if (row.ok()) row.report->packed = packed;
  }
}

/** Bytes that `millrace run` would have reserved; std::nullopt if the requests do not fit. */
std::optional<ModeledRun> run_of(const trace::AllocationLog& log, std::uint32_t number,
                                 std::size_t device_bytes) {
  try {
    return model_run(log, number, device_bytes, DeviceMemory::drop_in());
  } catch (const out_of_memory&) {
    return std::nullopt;
  }
}

/** Returns std::nullopt if the requests do not fit, or if the log has no order of streams. */
std::optional<DriverModel> driver_of(const trace::AllocationLog& log, std::uint32_t number,
                                     std::size_t device_bytes) {
  if (!knows_order(log.format)) return std::nullopt;
  try {
    return model_driver(log, number, device_bytes);
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

ReplayedDevice replay_device(const trace::AllocationLog& log, std::uint32_t number,
                             const ReplayRequest& request) {
  ReplayedDevice device{.device = number,
                        .memory = replay_memory(log, number, request.device_bytes),
                        .driver = driver_of(log, number, request.device_bytes),
                        .what_if = {},
                        .rows = {}};
  if (request.what_if) {
    device.what_if = what_if(log, number);
    device.what_if->run = run_of(log, number, request.device_bytes);
  }
  const RequestBounds bounds = request_bounds(log, number);
  for (const std::string& name : request.allocators) {
    // If the snapshot uses expandable segments, the row `torch` already replays this setting.
    const bool is_torch = name == "torch-expandable" && log.snapshot.has_value() &&
                          log.snapshot->settings.expandable_segments;
    if (is_torch && request.allocators.size() > 1) continue;
    const bool recorded = name == "torch" && log.snapshot.has_value();
    if (recorded) {
      ReplayRow row{.name = name,
                    .allocator = name,
                    .start = ReplayStart::recorded,
                    .report = {},
                    .failure = {}};
      run(row, log, number, request, bounds);
      device.rows.push_back(std::move(row));
    }
    device.rows.push_back({.name = recorded ? name + ", empty start" : name,
                           .allocator = name,
                           .start = ReplayStart::live_blocks,
                           .report = {},
                           .failure = {}});
  }
  run_empty_starts(device, log, bounds, request);
  share_best_packing(device);
  return device;
}

}  // namespace

std::set<std::uint32_t> devices_of(const trace::AllocationLog& log) {
  std::set<std::uint32_t> devices;
  for (const trace::LogEvent& event : log.events) devices.insert(event.device);
  return devices;
}

const ReplayReport* ReplayedDevice::any() const {
  const auto row = std::ranges::find_if(rows, &ReplayRow::ok);
  return row == rows.end() ? nullptr : &*row->report;
}

const ReplayReport* ReplayedDevice::find(std::string_view allocator, ReplayStart start) const {
  const auto row = std::ranges::find_if(rows, [&](const ReplayRow& each) {
    return each.ok() && each.allocator == allocator && each.start == start;
  });
  return row == rows.end() ? nullptr : &*row->report;
}

std::vector<ReplayedDevice> replay_devices(const trace::AllocationLog& log,
                                           const ReplayRequest& request) {
  std::vector<ReplayedDevice> devices;
  for (const std::uint32_t device : devices_of(log)) {
    devices.push_back(replay_device(log, device, request));
  }
  return devices;
}

}  // namespace millrace::cli
