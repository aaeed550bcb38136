#include "replay/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/observe/report.hpp"

namespace millrace::cli {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr std::size_t kWarningsShown = 3;
constexpr std::size_t kCurveWidth = 64;

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
      curve.push_back({{"time_us", point.time_us},
                       {"recorded_bytes", point.recorded},
                       {"replayed_bytes", point.replayed}});
    }
  }
  return out;
}

// One row of block characters, the highest of `all` at full height.
std::string sparkline(const std::vector<ReservedPoint>& curve, std::size_t ReservedPoint::*side,
                      std::size_t highest) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t width = std::min(kCurveWidth, curve.size());
  std::string line;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t from = i * curve.size() / width;
    const std::size_t to = std::max(from + 1, (i + 1) * curve.size() / width);
    std::size_t most = 0;
    for (std::size_t at = from; at < to; ++at) most = std::max(most, curve[at].*side);
    line += kBars[highest == 0 ? 0 : (most * 8 + highest - 1) / highest];
  }
  return line;
}

std::string curves(const ReplayReport& report) {
  if (report.curve.size() < 2) return "";
  std::size_t highest = 0;
  for (const ReservedPoint& point : report.curve) {
    highest = std::max({highest, point.recorded, point.replayed});
  }
  return fmt::format(
      "  reserved over time (changes only), up to {} MiB\n    PyTorch   {}\n    {:<9} {}\n",
      mib(highest), sparkline(report.curve, &ReservedPoint::recorded, highest), report.allocator,
      sparkline(report.curve, &ReservedPoint::replayed, highest));
}

std::string decisions_line(const ReplayDecisions& decisions) {
  std::string line =
      fmt::format("  decisions: {} of {} allocations at the address where PyTorch put them",
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

void add_rows(TextTable& table, const ReplayedFile& file) {
  const ReplayReport& first = file.reports.front();
  if (first.recorded_peak) {
    table.add_row({cell("PyTorch, recorded"), cell(mib(*first.recorded_peak)),
                   cell(ratio(*first.recorded_peak, first.load)), cell(""), cell(""), cell(""),
                   cell(""), cell(""), cell("")});
  }
  for (const ReplayReport& report : file.reports) {
    const Ladder& ladder = report.ladder;
    const std::string name = report.device == 0
                                 ? report.allocator
                                 : fmt::format("{}, device {}", report.allocator, report.device);
    table.add_row({cell(name), cell(mib(report.statistics.bytes.reserved.peak), Look::strong),
                   cell(ratio(report.statistics.bytes.reserved.peak, report.load)),
                   cell(mib(ladder.requested)), cell(mib(ladder.rounding()), Look::step),
                   cell(mib(ladder.streams()), Look::step), cell(mib(ladder.packing()), Look::step),
                   cell(mib(ladder.policy()), Look::step),
                   cell(fmt::format("{:.0f}%", 100 * report.statistics.utilisation()))});
  }
  table.add_row({cell("packed offline"), cell(mib(first.packed)),
                 cell(ratio(first.packed, first.load)), cell(""), cell(""), cell(""), cell(""),
                 cell(""), cell("")});
  table.add_row({cell("most live at once"), cell(mib(first.load)), cell("1.000"), cell(""),
                 cell(""), cell(""), cell(""), cell(""), cell("")});
}

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
  for (const ReplayedFile& file : files) {
    if (!text.empty()) text += '\n';
    text += paint(file.file, Look::strong) + fmt::format("  ({})\n", file.format);
    text += warnings_text(file.warnings);
    if (file.reports.empty()) {
      text += "  no events\n";
      continue;
    }
    text += fmt::format("  {} allocations, {} frees\n\n", file.reports.front().allocations,
                        file.reports.front().frees);
    TextTable table{{{"", {{"", 18}}},
                     {"peak reserved", {{"MiB", 10}, {"/ live", 7}}},
                     {"where it went, MiB",
                      {{"live", 9}, {"round", 7}, {"streams", 8}, {"packing", 8}, {"policy", 8}}},
                     {"", {{"util", 5}}}}};
    add_rows(table, file);
    text += table.render(paint) + '\n';
    for (const ReplayReport& report : file.reports) {
      if (report.decisions) text += decisions_line(*report.decisions) + curves(report);
      text += warnings_text(report.warnings);
    }
  }
  return text;
}

}  // namespace millrace::cli
