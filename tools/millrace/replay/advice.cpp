#include "replay/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/advice_lines.hpp"
#include "cli/wording.hpp"

namespace millrace::cli {
namespace {

std::size_t peak_of(const ReplayRow& row) { return row.report->statistics.bytes.reserved.peak; }

/** Rows that start with the live blocks. They differ only in the allocator. */
std::vector<const ReplayRow*> comparable(const ReplayedDevice& device) {
  std::vector<const ReplayRow*> rows;
  for (const ReplayRow& row : device.rows) {
    if (row.ok() && row.report->start == ReplayStart::live_blocks) rows.push_back(&row);
  }
  return rows;
}

/** Quotes a name that contains a comma. */
std::string quoted(const std::string& name) {
  return name.find(',') == std::string::npos ? name : '"' + name + '"';
}

std::string cost_of(const ReplayRow& row) {
  const std::uint64_t waits = row.report->statistics.counts.waits_inserted;
  if (waits == 0) return "no added waits";
  return fmt::format("a stream waits {} more time{}", waits, waits == 1 ? "" : "s");
}

/** The unit of the table. */
std::string amount(std::size_t bytes) { return mib(bytes) + " MiB"; }

/** The row or program from which changes are measured. */
struct Usual {
  std::string name;
  std::size_t reserved = 0;
  const ReplayReport* report = nullptr;  // a replay of the same requests
  const ReplayRow* row = nullptr;        // nullptr: the program as it ran
};

/** For PyTorch's snapshots this is the row `torch`. For other files it is the recorded program if
 * its peak is known, otherwise the row `torch`. */
Usual usual_of(const ReplayedDevice& device, const std::vector<const ReplayRow*>& rows) {
  const ReplayReport& any = *rows.front()->report;
  const bool is_of_torch = std::ranges::any_of(
      device.rows, [](const ReplayRow& row) { return row.start == ReplayStart::recorded; });
  if (!is_of_torch && any.recorded_peak) return {"as it ran", *any.recorded_peak, &any, nullptr};
  const auto torch = std::ranges::find(rows, "torch", &ReplayRow::allocator);
  const ReplayRow& row = torch == rows.end() ? *rows.front() : **torch;
  return {quoted(row.name), peak_of(row), &*row.report, &row};
}

std::string bound_of(const Usual& from) {
  return change_line({.name = "without regard to streams, the best layout found",
                      .saved = static_cast<double>(from.reserved - from.report->packed),
                      .of = static_cast<double>(from.reserved),
                      .amount = amount(from.reserved - from.report->packed),
                      .cost = "which allocators with several streams may not reach"});
}

}  // namespace

std::vector<std::string> replay_advice(const ReplayedDevice& device, const Painter& paint) {
  const std::vector<const ReplayRow*> rows = comparable(device);
  if (rows.empty()) return {};
  const Usual from = usual_of(device, rows);
  const auto reserved = static_cast<double>(from.reserved);
  std::vector<std::string> lines{
      held_line(from.name, amount(from.reserved), amount(from.report->load))};
  const ReplayRow* least = nullptr;
  for (const ReplayRow* row : rows) {
    if (row == from.row) continue;
    if (least == nullptr || peak_of(*row) < peak_of(*least)) least = row;
  }
  const auto add = [&](std::string_view title, const std::string& text, bool is_good) {
    std::string line = advice_line(title, text, is_good, paint);
    line.pop_back();  // remove the line end
    lines.push_back(std::move(line));
  };
  if (least != nullptr) {
    const double saved = reserved - static_cast<double>(peak_of(*least));
    add(from.row == nullptr ? "Least of the replays" : "Another allocator",
        change_line({.name = quoted(least->name),
                     .saved = saved,
                     .of = reserved,
                     .amount = amount(static_cast<std::size_t>(std::abs(saved))),
                     .cost = cost_of(*least)}),
        saved >= 0 || is_as_much(saved, reserved));
  }
  if (from.reserved > from.report->packed && from.report->packed > 0)
    lines.push_back(fmt::format("{}: {}", paint("Bound", Look::strong), bound_of(from)));
  return lines;
}

}  // namespace millrace::cli
