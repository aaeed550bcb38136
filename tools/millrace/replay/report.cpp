#include "replay/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "millrace/observe/report.hpp"

namespace millrace::cli {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr std::size_t kWarningsShown = 3;
constexpr std::size_t kCurveWidth = 64;
constexpr std::size_t kColumns = 9;

std::string mib(std::size_t bytes) {
  return fmt::format("{:.2f}", static_cast<double>(bytes) / kMiB);
}

std::string ratio(std::size_t bytes, std::size_t least) {
  if (least == 0) return "–";
  return fmt::format("{:.3f}", static_cast<double>(bytes) / static_cast<double>(least));
}

nlohmann::json decisions_json(const ReplayDecisions& decisions) {
  return {{"same", decisions.same},
          {"total", decisions.total},
          {"segments_same", decisions.segments_same},
          {"segments_total", decisions.segments_total},
          {"first_difference", decisions.first_difference}};
}

nlohmann::json report_json(const ReplayReport& report) {
  nlohmann::json out{{"allocator", report.allocator},     {"device", report.device},
                     {"allocations", report.allocations}, {"frees", report.frees},
                     {"load_bytes", report.load},         {"packed_bytes", report.packed},
                     {"statistics", report.statistics},   {"ladder", report.ladder},
                     {"warnings", report.warnings}};
  if (report.decisions) out["decisions"] = decisions_json(*report.decisions);
  if (report.recorded_peak) {
    out["recorded_peak_reserved_bytes"] = *report.recorded_peak;
    auto& curve = out["reserved_curve"] = nlohmann::json::array();
    for (const ReservedPoint& point : report.curve) {
      curve.push_back({{"event", point.event},
                       {"time_us", point.time_us},
                       {"recorded_bytes", point.recorded},
                       {"replayed_bytes", point.replayed}});
    }
  }
  return out;
}

// The most that a curve reaches in each of `width` equal stretches of the trace's events.
std::vector<std::size_t> sampled(const std::vector<ReservedPoint>& curve,
                                 std::size_t ReservedPoint::*side, std::size_t width) {
  const std::uint64_t events = curve.back().event + 1;
  std::vector<std::size_t> most;
  std::size_t at = 0;
  for (std::size_t i = 0; i < width; ++i) {
    std::size_t highest = curve[at].*side;
    while (at + 1 < curve.size() && curve[at + 1].event * width < (i + 1) * events) {
      highest = std::max(highest, curve[++at].*side);
    }
    most.push_back(highest);
  }
  return most;
}

// One row of block characters, `highest` at full height.
std::string sparkline(const std::vector<std::size_t>& values, std::size_t highest) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const std::size_t value : values) {
    line += kBars[highest == 0 ? 0 : (value * 8 + highest - 1) / highest];
  }
  return line;
}

using Reports = std::vector<const ReplayReport*>;

std::string curves(const Reports& reports) {
  std::size_t highest = 0;
  for (const ReplayReport* report : reports) {
    if (report->curve.empty()) return "";
    for (const ReservedPoint& point : report->curve) {
      highest = std::max({highest, point.recorded, point.replayed});
    }
  }
  std::string text =
      fmt::format("  reserved over the trace's events, up to {} MiB\n", mib(highest));
  const auto line = [&](const std::string& name, const ReplayReport& report,
                        std::size_t ReservedPoint::*side) {
    text += fmt::format("    {:<18}{}\n", name,
                        sparkline(sampled(report.curve, side, kCurveWidth), highest));
  };
  line("PyTorch, recorded", *reports.front(), &ReservedPoint::recorded);
  for (const ReplayReport* report : reports) {
    line(report->allocator, *report, &ReservedPoint::replayed);
  }
  return text;
}

std::string decisions_line(const ReplayDecisions& decisions) {
  std::string line =
      decisions.total == 0
          ? "  decisions: no allocation could be compared"
          : fmt::format("  decisions: {} of {} allocations at the address where PyTorch put them",
                        decisions.same, decisions.total);
  line += decisions.segments_total == 0
              ? "; neither took a segment\n"
              : fmt::format("; {} of {} segments taken alike\n", decisions.segments_same,
                            decisions.segments_total);
  if (!decisions.first_difference.empty()) {
    line += fmt::format("  first difference: {}\n", decisions.first_difference);
  }
  return line;
}

std::string warnings_text(const std::vector<std::string>& warnings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kWarningsShown, warnings.size()); ++i) {
    text += fmt::format("  note: {}\n", warnings[i]);
  }
  if (warnings.size() > kWarningsShown) {
    text += fmt::format("  note: and {} more, all in --format json\n",
                        warnings.size() - kWarningsShown);
  }
  return text;
}

TextTable::Cell cell(std::string text, Look look = Look::plain) { return {std::move(text), look}; }

void add_bound(TextTable& table, std::string name, std::size_t bytes, std::size_t least) {
  std::vector<TextTable::Cell> cells{cell(std::move(name)), cell(mib(bytes)),
                                     cell(ratio(bytes, least))};
  cells.resize(kColumns, cell(""));
  table.add_row(std::move(cells));
}

void add_replay(TextTable& table, const ReplayReport& report) {
  const Ladder& ladder = report.ladder;
  const std::size_t reserved = report.statistics.bytes.reserved.peak;
  table.add_row({cell(report.allocator), cell(mib(reserved), Look::strong),
                 cell(ratio(reserved, report.load)), cell(mib(ladder.requested)),
                 cell(mib(ladder.rounding()), Look::step), cell(mib(ladder.streams()), Look::step),
                 cell(mib(ladder.packing()), Look::step), cell(mib(ladder.policy()), Look::step),
                 cell(fmt::format("{:.0f}%", 100 * report.statistics.utilisation()))});
}

/** One device of a file. */
std::string render_device(const Reports& reports, const Painter& paint) {
  const ReplayReport& first = *reports.front();
  TextTable table{{{"", {{"", 18}}},
                   {"peak reserved", {{"MiB", 10}, {"/ live", 7}}},
                   {"where it went, MiB",
                    {{"live", 9}, {"round", 7}, {"streams", 8}, {"packing", 8}, {"policy", 8}}},
                   {"", {{"util", 5}}}}};
  if (first.recorded_peak) {
    add_bound(table, "PyTorch, recorded", *first.recorded_peak, first.load);
  }
  for (const ReplayReport* report : reports) add_replay(table, *report);
  add_bound(table, "packed offline", first.packed, first.load);
  add_bound(table, "most live at once", first.load, first.load);

  std::string text = fmt::format("  {} allocations, {} frees\n\n", first.allocations, first.frees) +
                     table.render(paint) + '\n';
  for (const ReplayReport* report : reports) {
    if (report->decisions) text += decisions_line(*report->decisions);
  }
  text += curves(reports);
  for (const ReplayReport* report : reports) text += warnings_text(report->warnings);
  return text;
}

std::map<std::uint32_t, Reports> by_device(const ReplayedFile& file) {
  std::map<std::uint32_t, Reports> devices;
  for (const ReplayReport& report : file.reports) devices[report.device].push_back(&report);
  return devices;
}

constexpr const char* kExplanation =
    "most live at once: the requests alone, when most of them lived. Nothing can hold them in "
    "less.\n"
    "packed offline: the same requests laid out by somebody who knows the future and has one "
    "stream.\n"
    "  Without regard to streams, the least that is possible lies between these two.\n"
    "live + round + streams + packing + policy = peak reserved: what rounding of sizes adds, what\n"
    "  can not be handed from stream to stream, gaps between blocks, and memory kept beyond "
    "that.\n";

}  // namespace

nlohmann::json to_document(const std::vector<ReplayedFile>& files) {
  nlohmann::json out{{"schema", "millrace.replay/1"}, {"files", nlohmann::json::array()}};
  for (const ReplayedFile& file : files) {
    nlohmann::json reports = nlohmann::json::array();
    for (const ReplayReport& report : file.reports) reports.push_back(report_json(report));
    out["files"].push_back({{"file", file.file},
                            {"format", file.format},
                            {"warnings", file.warnings},
                            {"replays", std::move(reports)}});
  }
  return out;
}

std::string render(const std::vector<ReplayedFile>& files, const Painter& paint) {
  std::string text;
  bool any = false;
  for (const ReplayedFile& file : files) {
    text += paint(file.file, Look::strong) + fmt::format("  ({})\n", file.format);
    text += warnings_text(file.warnings);
    const std::map<std::uint32_t, Reports> devices = by_device(file);
    for (const auto& [device, reports] : devices) {
      if (devices.size() > 1)
        text += paint(fmt::format("  device {}", device), Look::strong) + '\n';
      text += render_device(reports, paint) + '\n';
    }
    any = any || !devices.empty();
    if (devices.empty()) text += "  no events\n\n";
  }
  return any ? text + paint(kExplanation, Look::faint) : text;
}

}  // namespace millrace::cli
