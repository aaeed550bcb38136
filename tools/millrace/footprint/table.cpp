#include "footprint/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/page.hpp"
#include "cli/wording.hpp"
#include "footprint/advice.hpp"
#include "millrace/memory/byte_size.hpp"

namespace millrace::cli {
namespace {

using Cell = TextTable::Cell;

constexpr std::size_t kNotableStep = std::size_t{512} << 20;
constexpr double kNotablySlower = 1.02;
constexpr double kNotablyExposed = 0.02;

std::string_view idea_of(std::string_view allocator) {
  if (allocator == "torch") return "PyTorch's decisions: what a stream freed serves that stream";
  if (allocator == "millrace") return "a free block serves every stream that is ordered after it";
  return "the driver's own stream-ordered pool";
}

const char* basis_of(const FootprintOptions& options) {
  return options.device.modeled ? "modeled" : "measured";
}

/** A range is shown only beside a median of several draws. */
bool has_range(const FootprintOptions& options) { return options.seeds > 1; }

std::vector<TextTable::Group> first_groups(const FootprintOptions& options) {
  std::vector<TextTable::Column> reserved{{"GiB", 6}};
  if (has_range(options)) reserved = {{"median", 6}, {"range", 12}};
  reserved.push_back({"saved", 6});
  return {{"", {{"", 14}}},
          {"peak reserved, GiB", std::move(reserved)},
          {"step", {{"ms", 7}, {"overlap", 7}}}};
}

std::vector<TextTable::Group> wide_groups(const FootprintOptions& options) {
  return {
      {"", {{"", 14}}},
      {"peaks, GiB: measured", {{"reserved"}, {"active", 6}, {"alloc", 5}}},
      {"where it went, GiB: measured",
       {{"live", 5}, {"round"}, {"streams"}, {"packing"}, {"policy", 6}}},
      {"main, calls: measured", {{"strand", 6}, {"frag", 4}, {"util", 4}, {"calls", 5}}},
      {fmt::format("step, ms: {}", basis_of(options)), {{"P50", 5}, {"P90", 5}, {"overlap"}}},
  };
}

/** The best figures of a table. They are highlighted. */
struct Best {
  std::size_t reserved = std::numeric_limits<std::size_t>::max();
  double step = std::numeric_limits<double>::max();
  double hidden = 0;

  explicit Best(const std::vector<FootprintRow>& rows) {
    for (const FootprintRow& row : rows) {
      if (!row.ok()) continue;
      reserved = std::min(reserved, row.figures.reserved);
      step = std::min(step, row.figures.step_p50);
      hidden = std::max(hidden, row.figures.hidden);
    }
  }
};

Cell step_cell(std::size_t bytes) {
  return {gib(bytes), bytes >= kNotableStep ? Look::step : Look::plain};
}

Cell time_cell(double time, const Best& best) {
  return {milliseconds(time), time > kNotablySlower * best.step ? Look::bad : Look::plain};
}

Cell hidden_cell(const FootprintFigures& f, const Best& best) {
  return {percent(f.hidden), f.hidden < best.hidden - kNotablyExposed ? Look::bad : Look::plain};
}

std::string name_of(const FootprintRow& row) {
  return (row.modeled_sizes() ? "~ " : "  ") + std::string{millrace::to_string(row.method)};
}

std::string range_text(const Spread& spread) {
  return fmt::format("{} to {}", gib_short(spread.least), gib_short(spread.most));
}

/** The saving of a row compared with the usual row. */
Cell saved_cell(const FootprintRow& row, const FootprintRow& usual) {
  if (&row == &usual) return {"–"};
  const double saved = row.saving(usual).median;
  return {gib_plain(saved), saved < 0 ? Look::bad : Look::plain};
}

std::vector<Cell> first_cells(const FootprintRow& row, const FootprintRow& usual, const Best& best,
                              const FootprintOptions& options) {
  const FootprintFigures& f = row.figures;
  const Spread reserved = row.reserved();
  std::vector<Cell> cells{
      {name_of(row)},
      {gib_plain(reserved.median), f.reserved == best.reserved ? Look::good : Look::strong}};
  if (has_range(options)) cells.push_back({range_text(reserved)});
  cells.push_back(saved_cell(row, usual));
  cells.push_back(time_cell(f.step_p50, best));
  cells.push_back(hidden_cell(f, best));
  return cells;
}

std::vector<Cell> wide_cells(const FootprintRow& row, const Best& best) {
  const FootprintFigures& f = row.figures;
  const auto usable = [&](std::string text) { return row.knows_usable() ? text : "–"; };
  return {
      {name_of(row)},
      {gib(f.reserved), f.reserved == best.reserved ? Look::good : Look::strong},
      {gib(f.active)},
      {gib(f.allocated)},
      {gib(f.requested)},
      {gib(f.rounding())},
      step_cell(f.streams()),
      step_cell(f.packing()),
      step_cell(f.policy()),
      {usable(gib(f.stranded))},
      {usable(percent(f.fragmentation))},
      {percent(f.utilization())},
      {fmt::format("{:.0f}", f.all_calls())},
      time_cell(f.step_p50, best),
      time_cell(f.step_p90, best),
      hidden_cell(f, best),
  };
}

TextTable table_of(const FootprintTable& table, const FootprintOptions& options) {
  TextTable text{options.wide ? wide_groups(options) : first_groups(options)};
  const Best best{table.rows};
  std::string_view allocator;
  for (const FootprintRow& row : table.rows) {
    if (row.allocator != allocator) {
      allocator = row.allocator;
      text.add_line({std::string{allocator}, Look::strong},
                    {std::string{idea_of(allocator)}, Look::faint});
    }
    if (row.ok()) {
      text.add_row(options.wide ? wide_cells(row, best)
                                : first_cells(row, *table.usual(), best, options));
      if (row.races && !row.races->empty()) {
        text.add_line({"    race"}, {row.races->front(), Look::bad});
      }
    } else {
      text.add_line({"  " + std::string{millrace::to_string(row.method)}},
                    {row.failure, Look::bad});
    }
  }
  return text;
}

std::string seeds_text(const FootprintOptions& options) {
  if (options.seeds == 1) return fmt::format("seed {}", options.seed);
  return fmt::format("medians over {} draws of the batches' sizes (seeds {} to {})", options.seeds,
                     options.seed, options.seed + options.seeds - 1);
}

std::string_view meaning_of(Waits waits) {
  return waits == Waits::coarse ? "coarse: for all work enqueued on a stream"
                                : "precise: for the work that is needed";
}

std::string loop_text(const FootprintTable& table, const FootprintOptions& options) {
  const experiment::Workload& workload = table.workload;
  const std::string sizes =
      fmt::format("Batches of {}, {} of activations", format_bytes(workload.mean_batch_bytes()),
                  format_bytes(workload.activations));
  if (!options.wide) {
    return fmt::format("{}; {} steps{}; {}.", sizes, workload.num_batches,
                       options.waits == Waits::coarse ? "" : ", precise waits",
                       seeds_text(options));
  }
  const std::string ahead =
      workload.run_ahead == 0
          ? "the host waits for each step"
          : fmt::format("the host enqueues at most {} operations ahead of the device",
                        workload.run_ahead);
  const std::string compute =
      workload.compute_ms ? fmt::format("{:g} ms", *workload.compute_ms)
                          : fmt::format("{:g} x the copy of its batch", workload.compute_to_copy);
  return fmt::format("{}; a step's compute takes {}; {}; waits are {}; {} steps; {}.", sizes,
                     compute, ahead, meaning_of(options.waits), workload.num_batches,
                     seeds_text(options));
}

std::string title(const FootprintTable& table, const FootprintOptions& options,
                  const Painter& paint) {
  const experiment::Workload& workload = table.workload;
  return fmt::format(
      "{}\n{}\n{}\n",
      paint(fmt::format("{}, loop shape {}", workload.name, millrace::to_string(workload.shape)),
            Look::strong),
      paint(fmt::format("on {} ({}), {}", options.device.name, basis_of(options),
                        options.device.title),
            Look::faint),
      paint(wrap(loop_text(table, options), page_width(), 0), Look::faint));
}

std::string strategies_text() {
  std::string text = "How a batch is copied to the device:";
  for (const CopyStrategyTraits& traits : kCopyStrategies) {
    text += fmt::format(" {}: {}.", traits.name, traits.summary);
  }
  return text;
}

std::string modeled_text(const FootprintOptions& options) {
  if (!options.device.modeled) return " Sizes and times are measured.";
  return fmt::format(
      " Sizes are measured: what the real allocators decided. Times are modeled by the profile of "
      "{}. ~: sizes of the driver's pool as it is modeled there.",
      options.device.name);
}

/** The row with which savings are compared; "" if every row failed. */
std::string saved_text(const FootprintTable& table, const FootprintOptions& options) {
  const FootprintRow* const usual = table.usual();
  if (usual == nullptr) return "";
  return fmt::format(" saved: less than {}, {}{}.", usual->allocator,
                     millrace::to_string(usual->method),
                     has_range(options) ? ", draw by draw on the same sizes" : "");
}

std::string first_legend(const FootprintTable& table, const FootprintOptions& options) {
  return fmt::format(
      "peak reserved: what the allocator held from the driver{}.{} step: from the end of one step "
      "on the main stream to the end of the next (P50). overlap: of the time in which batches are "
      "copied, the share in which main computes.{} --wide: all columns, and how to save.",
      has_range(options) ? "; range: least and most of the draws" : "", saved_text(table, options),
      modeled_text(options));
}

std::string wide_legend(const FootprintOptions& options) {
  return fmt::format(
      "reserved = live + round + streams + packing + policy. live: peak of the requested bytes. "
      "round: lost to the rounding of sizes. streams: freed, but not yet usable by the next "
      "requester. packing: gaps, since blocks are contiguous. policy: the allocator does not "
      "know the future, and keeps memory unused. strand(ed): free bytes that main could not have "
      "when a step had been enqueued, at worst. frag: external fragmentation of what it could "
      "have. util: active / reserved. calls: driver calls a step. overlap: of the time in "
      "which batches are copied, the share in which main computes. –: the driver's pool does not "
      "say.{}",
      modeled_text(options));
}

std::string legend(const FootprintTable& table, const FootprintOptions& options) {
  const std::size_t width = page_width();
  return wrap(options.wide ? wide_legend(options) : first_legend(table, options), width, 0) + '\n' +
         wrap(strategies_text(), width, 0);
}

}  // namespace

std::string render_tables(const std::vector<FootprintTable>& tables,
                          const FootprintOptions& options, const Painter& paint) {
  std::string out;
  for (const FootprintTable& table : tables) {
    if (!out.empty()) out += '\n';
    out += title(table, options, paint) + '\n';
    out += table_of(table, options).render(paint);
    if (&table == &tables.front()) {
      out += '\n' + paint(legend(table, options), Look::faint) + '\n';
    }
    out += '\n' + (options.wide ? render_advice : render_first_advice)(table, paint);
  }
  return out;
}

}  // namespace millrace::cli
