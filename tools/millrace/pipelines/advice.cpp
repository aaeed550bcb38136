#include "pipelines/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "cli/advice_lines.hpp"
#include "cli/wording.hpp"

namespace millrace::cli {
namespace {

constexpr double kSameLoop = 0.01;  ///< share of the loop's P50 that counts as the same time

std::size_t reserved_by(const PipelineRow& row) { return row.example.memory.reserved.peak; }

/** The usual choice, torch with side-stream; if it has no figures, the row that reserves most. */
const PipelineRow* usual_row(const std::vector<PipelineRow>& rows) {
  const PipelineRow* most = nullptr;
  for (const PipelineRow& row : rows) {
    if (!row.ok()) continue;
    const bool is_usual =
        row.cell.allocator == "torch" && row.cell.options.copy == CopyMethod::side_stream;
    if (is_usual) return &row;
    if (most == nullptr || reserved_by(row) > reserved_by(*most)) most = &row;
  }
  return most;
}

/** The row with the smallest figure among those that `accept` takes; nullptr if it takes none. */
template <typename Accept, typename Figure>
const PipelineRow* least_row(const std::vector<PipelineRow>& rows, Accept accept, Figure figure) {
  const PipelineRow* best = nullptr;
  for (const PipelineRow& row : rows) {
    if (!row.ok() || !accept(row)) continue;
    if (best == nullptr || figure(row) < figure(*best)) best = &row;
  }
  return best;
}

std::string row_name(const PipelineRow& row, const PipelineRow& from) {
  std::string name =
      fmt::format("{}, {}", row.cell.allocator, millrace::to_string(row.cell.options.copy));
  if (row.cell.options.waits != from.cell.options.waits)
    name += fmt::format(", {} waits", millrace::to_string(row.cell.options.waits));
  const std::string title = title_of(row.cell);
  return title == title_of(from.cell) ? name : title + ", " + name;
}

std::string change_to(const PipelineRow& from, const PipelineRow& to) {
  const double saved =
      static_cast<double>(reserved_by(from)) - static_cast<double>(reserved_by(to));
  return change_line({.name = row_name(to, from),
                      .saved = saved,
                      .of = static_cast<double>(reserved_by(from)),
                      .amount = gib_plain(std::abs(saved)) + " GiB",
                      .cost = time_change("loop", from.runtime_p50, to.runtime_p50)});
}

}  // namespace

std::string render_advice(const std::vector<PipelineRow>& rows, const Painter& paint) {
  const PipelineRow* const from = usual_row(rows);
  if (from == nullptr) return "";
  const auto same_pipeline = [&](const PipelineRow& row) {
    return title_of(row.cell) == title_of(from->cell);
  };
  const PipelineRow* const other = least_row(
      rows,
      [&](const PipelineRow& row) {
        return same_pipeline(row) && row.cell.allocator == "millrace" &&
               row.cell.options.copy == from->cell.options.copy &&
               row.cell.options.waits == from->cell.options.waits;
      },
      reserved_by);
  const PipelineRow* const least = least_row(
      rows,
      [&](const PipelineRow& row) {
        return same_pipeline(row) && row.runtime_p50 <= (1 + kSameLoop) * from->runtime_p50;
      },
      reserved_by);
  const PipelineRow* const fastest = least_row(
      rows, [](const PipelineRow&) { return true; },
      [](const PipelineRow& row) { return row.runtime_p50; });
  std::vector<std::pair<const char*, const PipelineRow*>> changes;
  const auto add = [&](const char* title, const PipelineRow* to) {
    const bool is_known =
        std::ranges::any_of(changes, [&](const auto& change) { return change.second == to; });
    if (to != nullptr && to != from && !is_known && changes.size() < 2)
      changes.emplace_back(title, to);
  };
  add("Another allocator", other);
  add("Least at this speed", least);
  add("Fastest", fastest);
  std::string out =
      held_line(fmt::format("{}, {}", title_of(from->cell), row_name(*from, *from)),
                gib(reserved_by(*from)) + " GiB", gib(from->example.ladder.requested) + " GiB") +
      '\n';
  for (const auto& [title, to] : changes) {
    const auto before = static_cast<double>(reserved_by(*from));
    const double saved = before - static_cast<double>(reserved_by(*to));
    const bool is_less = saved > 0 && !is_as_much(saved, before);
    out += advice_line(title, change_to(*from, *to), is_less || to == fastest, paint);
  }
  return out;
}

}  // namespace millrace::cli
