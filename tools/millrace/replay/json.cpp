#include "replay/json.hpp"

#include "millrace/observe/report.hpp"

namespace millrace::cli {
namespace {

nlohmann::json decisions_of(const ReplayDecisions& decisions) {
  return {{"same", decisions.same},
          {"total", decisions.total},
          {"segments_same", decisions.segments_same},
          {"segments_total", decisions.segments_total},
          {"first_difference", decisions.first_difference}};
}

nlohmann::json curve_of(const ReplayReport& report) {
  nlohmann::json curve = nlohmann::json::array();
  for (const ReservedPoint& point : report.curve) {
    curve.push_back({{"event", point.event},
                     {"time_us", point.time_us},
                     {"recorded_bytes", point.recorded},
                     {"replayed_bytes", point.replayed}});
  }
  return curve;
}

/** The device's size. A recorded start repeats PyTorch's decisions, so only the option limits it.
 */
nlohmann::json device_memory_of(const ReplayRow& row, const ReplayMemory& memory) {
  const bool limited = memory.bytes > 0 && (row.start != ReplayStart::recorded ||
                                            memory.from == ReplayMemory::From::option);
  if (!limited) return {{"bytes", nullptr}, {"from", nullptr}};
  return {{"bytes", memory.bytes}, {"from", to_string(memory.from)}};
}

void add_figures(nlohmann::json& out, const ReplayReport& report) {
  out["start_reserved_bytes"] = report.start_reserved;
  out["allocations"] = report.allocations;
  out["frees"] = report.frees;
  out["load_bytes"] = report.load;
  out["packed_bytes"] = report.packed;
  out["statistics"] = report.statistics;
  out["ladder"] = report.ladder;
  out["warnings"] = report.warnings;
  if (report.retried.tried > 0) {
    out["failed_requests"] = {{"tried", report.retried.tried},
                              {"served", report.retried.served},
                              {"last_served", report.retried.last_served}};
  }
  if (report.decisions) out["decisions"] = decisions_of(*report.decisions);
  if (report.recorded_peak) {
    out["recorded_peak_reserved_bytes"] = *report.recorded_peak;
    out["reserved_curve"] = curve_of(report);
  }
}

nlohmann::json row_of(const ReplayRow& row, const ReplayedDevice& device) {
  nlohmann::json out{{"allocator", row.allocator},
                     {"device", device.device},
                     {"start", to_string(row.start)},
                     {"device_memory", device_memory_of(row, device.memory)}};
  if (row.ok()) {
    add_figures(out, *row.report);
  } else {
    out["error"] = "out of memory: " + row.failure;
  }
  return out;
}

}  // namespace

nlohmann::json to_document(const std::vector<ReplayedFile>& files) {
  nlohmann::json out{{"schema", "millrace.replay/1"}, {"files", nlohmann::json::array()}};
  for (const ReplayedFile& file : files) {
    nlohmann::json rows = nlohmann::json::array(), drivers = nlohmann::json::array(),
                   what_ifs = nlohmann::json::array();
    std::vector<std::string> warnings = file.warnings;
    for (const ReplayedDevice& device : file.devices) {
      for (const ReplayRow& row : device.rows) rows.push_back(row_of(row, device));
      if (device.what_if) {
        what_ifs.push_back(*device.what_if);
        what_ifs.back()["device"] = device.device;
      }
      if (device.driver) {
        drivers.push_back({{"device", device.device},
                           {"least_bytes", device.driver->least},
                           {"most_bytes", device.driver->most}});
      }
      if (!device.memory.note.empty()) warnings.push_back(device.memory.note);
    }
    out["files"].push_back({{"file", file.file},
                            {"format", trace::to_string(file.format)},
                            {"warnings", warnings},
                            {"replays", std::move(rows)}});
    if (!what_ifs.empty()) out["files"].back()["what_if"] = std::move(what_ifs);
    if (!drivers.empty()) out["files"].back()["driver"] = std::move(drivers);
  }
  return out;
}

}  // namespace millrace::cli
