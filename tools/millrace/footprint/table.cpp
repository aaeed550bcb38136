#include "footprint/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "cli/wording.hpp"
#include "footprint/advice.hpp"
#include "millrace/pipeline/data/byte_size.hpp"

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

std::vector<TextTable::Group> groups(const FootprintOptions& options) {
  const char* const basis = options.device.modelled ? "modelled" : "measured";
  return {
      {"", {{"", 14}}},
      {"peaks, GiB: measured", {{"reserved"}, {"active", 6}, {"alloc", 5}}},
      {"where it went, GiB: measured",
       {{"live", 5}, {"round"}, {"streams"}, {"packing"}, {"policy", 6}}},
      {"main, calls: measured", {{"strand", 6}, {"frag", 4}, {"util", 4}, {"calls", 5}}},
      {fmt::format("step, ms: {}", basis), {{"P50", 5}, {"P90", 5}, {"hidden"}}},
  };
}

/** The best figures of a table, to tell the others by. */
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

std::vector<Cell> cells_of(const FootprintRow& row, const Best& best) {
  const FootprintFigures& f = row.figures;
  const auto usable = [&](std::string text) { return row.knows_usable() ? text : "–"; };
  return {
      {(row.modelled_sizes() ? "~ " : "  ") + std::string{millrace::to_string(row.method)}},
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
      {percent(f.utilisation())},
      {fmt::format("{:.0f}", f.all_calls())},
      time_cell(f.step_p50, best),
      time_cell(f.step_p90, best),
      {percent(f.hidden), f.hidden < best.hidden - kNotablyExposed ? Look::bad : Look::plain},
  };
}

TextTable table_of(const FootprintTable& table, const FootprintOptions& options) {
  TextTable text{groups(options)};
  const Best best{table.rows};
  std::string_view allocator;
  for (const FootprintRow& row : table.rows) {
    if (row.allocator != allocator) {
      allocator = row.allocator;
      text.add_line({std::string{allocator}, Look::strong},
                    {std::string{idea_of(allocator)}, Look::faint});
    }
    if (row.ok()) {
      text.add_row(cells_of(row, best));
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

std::string title(const FootprintTable& table, const FootprintOptions& options,
                  const Painter& paint) {
  const Workload& workload = table.workload;
  const std::string seeds = options.seeds == 1
                                ? fmt::format("seed {}", options.seed)
                                : fmt::format("medians over the seeds {} to {}", options.seed,
                                              options.seed + options.seeds - 1);
  const std::string ahead = workload.run_ahead == 0
                                ? "the host waits for each step"
                                : fmt::format("the host {} operations ahead", workload.run_ahead);
  return fmt::format(
      "{}  {}\n{}\n",
      paint(fmt::format("{}, loop shape {}", workload.name, millrace::to_string(workload.shape)),
            Look::strong),
      paint(fmt::format("on {} ({}), {}", options.device.name,
                        options.device.modelled ? "modelled" : "measured", options.device.title),
            Look::faint),
      paint(wrap(fmt::format("batches of {}, {} of activations, compute {:g} x the copy, {}, {} "
                             "waits; {} steps, {}",
                             format_bytes(workload.mean_batch_bytes()),
                             format_bytes(workload.activations), workload.compute_to_copy, ahead,
                             to_string(options.waits), workload.num_batches, seeds),
                 kPageWidth, 0),
            Look::faint));
}

std::string legend(const FootprintOptions& options) {
  return wrap(
      fmt::format(
          "reserved = live + round + streams + packing + policy. live: most bytes asked for at "
          "once. round: of sizes. streams: freed, but not yet to be had by who asked next. "
          "packing: blocks are in one piece. policy: no knowledge of the future, and memory kept "
          "unused. strand(ed): free bytes that main could not have when a step was "
          "enqueued, at worst. frag: external fragmentation of what it could have. util: active / "
          "reserved. "
          "calls: of the driver, a step. hidden: of the time in which batches are copied, that in "
          "which main computes. measured: what the real allocators and the program did{}.",
          options.device.modelled
              ? fmt::format("; modelled: by the profile of {}; ~: sizes of the driver's pool as "
                            "it is modelled there",
                            options.device.name)
              : ""),
      kPageWidth, 0);
}

}  // namespace

std::string render_tables(const std::vector<FootprintTable>& tables,
                          const FootprintOptions& options, const Painter& paint) {
  std::string out;
  for (const FootprintTable& table : tables) {
    if (!out.empty()) out += '\n';
    out += title(table, options, paint) + '\n';
    out += table_of(table, options).render(paint);
    if (&table == &tables.front()) out += '\n' + paint(legend(options), Look::faint) + '\n';
    out += '\n' + render_advice(table, paint);
  }
  return out;
}

}  // namespace millrace::cli
