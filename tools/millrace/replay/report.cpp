#include "replay/report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "cli/page.hpp"
#include "cli/wording.hpp"
#include "replay/advice.hpp"

namespace millrace::cli {
namespace {

constexpr std::size_t kWarningsShown = 3;
constexpr std::size_t kMostOfCurve = 64;
constexpr std::size_t kNameWidth = 18;
constexpr std::size_t kFirstColumns = 6, kWideColumns = 9;

const char* recorded_name(bool snapshot) { return snapshot ? "PyTorch, recorded" : "as it ran"; }

std::string ratio(std::size_t bytes, std::size_t least) {
  if (least == 0) return "–";
  return fmt::format("{:.3f}", static_cast<double>(bytes) / static_cast<double>(least));
}

// The maximum of a curve in each of `width` equal parts of the trace's events.
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

// A row of block characters, with `highest` at full height.
std::string sparkline(const std::vector<std::size_t>& values, std::size_t highest) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string line;
  for (const std::size_t value : values) {
    line += kBars[highest == 0 ? 0 : (value * 8 + highest - 1) / highest];
  }
  return line;
}

/** The curves of reserved bytes; "" if the trace lacks the curve of its own allocator. */
std::string curves(const ReplayedDevice& device, bool snapshot) {
  std::size_t highest = 0;
  const ReplayReport* recorded = nullptr;
  for (const ReplayRow& row : device.rows) {
    if (!row.ok() || row.report->curve.empty()) continue;
    recorded = &*row.report;
    for (const ReservedPoint& point : row.report->curve) {
      highest = std::max({highest, point.recorded, point.replayed});
    }
  }
  if (recorded == nullptr) return "";
  std::string text =
      fmt::format("  reserved over the trace's events, up to {} MiB\n", mib(highest));
  constexpr std::size_t kBefore = 4 + kNameWidth + 2;
  const std::size_t width = std::clamp<std::size_t>(page_width() - kBefore, 16, kMostOfCurve);
  const auto line = [&](const std::string& name, const ReplayReport& report,
                        std::size_t ReservedPoint::*side) {
    text += fmt::format("    {:<{}}  {}\n", name, kNameWidth,
                        sparkline(sampled(report.curve, side, width), highest));
  };
  line(recorded_name(snapshot), *recorded, &ReservedPoint::recorded);
  for (const ReplayRow& row : device.rows) {
    if (row.ok()) line(row.name, *row.report, &ReservedPoint::replayed);
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
    line += fmt::format("  first difference: {}\n", printable(decisions.first_difference));
  }
  return line;
}

std::string warnings_text(const std::vector<std::string>& warnings) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kWarningsShown, warnings.size()); ++i) {
    text += fmt::format("  note: {}\n", printable(warnings[i]));
  }
  if (warnings.size() > kWarningsShown) {
    text += fmt::format("  note: and {} more, all in --format json\n",
                        warnings.size() - kWarningsShown);
  }
  return text;
}

using Cell = TextTable::Cell;

std::vector<TextTable::Group> groups(bool wide) {
  const TextTable::Group names{"", {{"", kNameWidth}}};
  const TextTable::Group reserved{"peak reserved", {{"MiB", 10}, {"/ live", 7}}};
  if (!wide) {
    return {
        names, reserved, {"beyond live, MiB", {{"rounding"}, {"fragmentation"}, {"cached", 8}}}};
  }
  return {names,
          reserved,
          {"where it went, MiB",
           {{"live", 9}, {"round", 7}, {"streams", 8}, {"packing", 8}, {"policy", 8}}},
          {"", {{"util", 5}}}};
}

Cell ladder_cell(std::size_t bytes) { return {mib(bytes), Look::step}; }

/** The cells after the peak of reserved memory. */
std::vector<Cell> parts_of(const ReplayReport& report, bool wide) {
  const Ladder& ladder = report.ladder;
  if (!wide) {
    return {ladder_cell(ladder.rounding()), ladder_cell(ladder.streams() + ladder.packing()),
            ladder_cell(ladder.policy())};
  }
  return {{mib(ladder.requested)},       ladder_cell(ladder.rounding()),
          ladder_cell(ladder.streams()), ladder_cell(ladder.packing()),
          ladder_cell(ladder.policy()),  {percent(report.statistics.utilization())}};
}

void add_bound(TextTable& table, std::string name, std::size_t bytes, std::size_t least,
               bool wide) {
  std::vector<Cell> cells{{std::move(name)}, {mib(bytes)}, {ratio(bytes, least)}};
  cells.resize(wide ? kWideColumns : kFirstColumns);
  table.add_row(std::move(cells));
}

void add_replay(TextTable& table, const ReplayRow& row, bool wide) {
  if (!row.ok()) {
    table.add_line({row.name}, {"out of memory: " + row.failure, Look::bad});
    return;
  }
  const ReplayReport& report = *row.report;
  const std::size_t reserved = report.statistics.bytes.reserved.peak;
  std::vector<Cell> cells{
      {row.name}, {mib(reserved), Look::strong}, {ratio(reserved, report.load)}};
  std::ranges::move(parts_of(report, wide), std::back_inserter(cells));
  table.add_row(std::move(cells));
}

std::string table_of(const ReplayedDevice& device, bool snapshot, bool wide, const Painter& paint) {
  TextTable table{groups(wide)};
  const ReplayReport* const first = device.any();
  if (first != nullptr && first->recorded_peak) {
    add_bound(table, recorded_name(snapshot), *first->recorded_peak, first->load, wide);
  }
  if (first != nullptr && device.driver) {
    add_bound(table, "driver, at least", device.driver->least, first->load, wide);
    add_bound(table, "driver, at most", device.driver->most, first->load, wide);
  }
  for (const ReplayRow& row : device.rows) add_replay(table, row, wide);
  if (first != nullptr) {
    add_bound(table, "packed offline", first->packed, first->load, wide);
    add_bound(table, "most live at once", first->load, first->load, wide);
  }
  return table.render(paint);
}

/** A sentence below the table. */
std::string sentence(const std::string& text) {
  constexpr std::size_t indent = 2;
  return std::string(indent, ' ') + wrap(printable(text), page_width() - indent, 2 * indent) + '\n';
}

/** "a", "a and b", "a, b and c". */
std::string listed(const std::vector<std::string>& all) {
  if (all.size() < 2) return fmt::format("{}", fmt::join(all, ""));
  return fmt::format("{} and {}", fmt::join(all.begin(), all.end() - 1, ", "), all.back());
}

/** The memory with which the rows start. */
std::string starts(const ReplayedDevice& device, bool snapshot) {
  std::string text;
  std::vector<std::string> names, sizes;
  for (const ReplayRow& row : device.rows) {
    if (row.start == ReplayStart::recorded) {
      if (!row.ok()) continue;
      text += sentence(
          fmt::format("{} starts with what PyTorch held, {} MiB with its cache, and gives segments "
                      "back when PyTorch did",
                      row.name, mib(row.report->start_reserved)));
      continue;
    }
    const bool plain = row.name.find(',') == std::string::npos;
    names.push_back(plain ? row.name : fmt::format("\"{}\"", row.name));
    if (row.ok()) sizes.push_back(mib(row.report->start_reserved));
  }
  const std::string who = listed(names);
  const char* const s = names.size() == 1 ? "s" : "";
  if (snapshot) {
    text += sentence(
        fmt::format("{} start{} with the blocks that are live then ({} MiB reserved), and no cache",
                    who, s, listed(sizes)));
  }
  return text + sentence(fmt::format("{} run{} on {}", who, s, in_words(device.memory, snapshot)));
}

/** Results of the requests that the recorded allocator could not serve. */
std::string retried(const ReplayedDevice& device) {
  std::size_t tried = 0;
  std::vector<std::string> served;
  for (const ReplayRow& row : device.rows) {
    if (!row.ok() || row.report->retried.tried == 0) continue;
    tried = row.report->retried.tried;
    served.push_back(fmt::format(
        "{} serves {}", row.name.find(',') != std::string::npos ? '"' + row.name + '"' : row.name,
        row.report->retried.served));
  }
  if (tried == 0) return "";
  return sentence(fmt::format("of {} that failed, {}",
                              tried == 1 ? "the request" : fmt::format("the {} requests", tried),
                              listed(served)));
}

WhatIf with_printable_names(WhatIf what_if) {
  for (WhatIfStranded& row : what_if.stranded) {
    for (std::string* const name : {&row.stream, &row.site, &row.waits_for})
      *name = printable(*name);
  }
  for (WhatIfMove& move : what_if.moves) {
    for (std::string* const name : {&move.stream, &move.to, &move.site}) *name = printable(*name);
  }
  return what_if;
}

/** The text of one device. */
std::string render_device(const ReplayedDevice& device, bool snapshot, bool wide,
                          const Painter& paint) {
  const ReplayReport* const first = device.any();
  std::string text;
  if (first != nullptr) {
    text += fmt::format("  {}, {}\n\n", counted(first->allocations, "allocation"),
                        counted(first->frees, "free"));
  }
  text += table_of(device, snapshot, wide, paint) + '\n';
  text += starts(device, snapshot);
  for (const std::string& line : replay_advice(device, paint)) text += "  " + line + '\n';
  text += retried(device);
  std::vector<std::string> warnings;
  if (!device.memory.note.empty()) warnings.push_back(device.memory.note);
  for (const ReplayRow& row : device.rows) {
    if (!row.ok()) continue;
    if (row.report->decisions) text += decisions_line(*row.report->decisions);
    for (const std::string& warning : row.report->warnings) {
      if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
    }
  }
  if (device.what_if) text += to_string(with_printable_names(*device.what_if));
  return text + curves(device, snapshot) + warnings_text(warnings);
}

constexpr const char* kBounds =
    "most live at once: the requests alone, when most of them lived. Nothing can hold them in "
    "less.\n"
    "packed offline: the same requests, laid out with knowledge of the future and on one stream. "
    "Without regard to streams, the least that is possible lies between these two.\n";
constexpr const char* kFirstNames =
    "rounding: added to the sizes. fragmentation: free memory that a request could not use, since "
    "it lay between blocks, or another stream's work on it was not complete. cached: memory kept "
    "beyond that. --wide: all columns.\n";
constexpr const char* kWide =
    "live + round + streams + packing + policy = peak reserved: what rounding of sizes adds, what "
    "cannot pass from stream to stream, gaps between blocks, and memory kept beyond that.\n";

}  // namespace

std::string render(const std::vector<ReplayedFile>& files, bool wide, const Painter& paint) {
  std::string text;
  bool any = false;
  for (const ReplayedFile& file : files) {
    text += paint(printable(file.file), Look::strong) +
            fmt::format("  ({})\n", trace::to_string(file.format));
    text += warnings_text(file.warnings);
    const bool snapshot = file.format == trace::TraceFormat::torch_snapshot;
    for (const ReplayedDevice& device : file.devices) {
      if (file.devices.size() > 1) {
        text += paint(fmt::format("  device {}", device.device), Look::strong) + '\n';
      }
      text += render_device(device, snapshot, wide, paint) + '\n';
    }
    any = any || !file.devices.empty();
    if (file.devices.empty()) text += "  no events\n\n";
  }
  if (!any) return text;
  return text + paint(std::string{kBounds} + (wide ? kWide : kFirstNames), Look::faint);
}

}  // namespace millrace::cli
