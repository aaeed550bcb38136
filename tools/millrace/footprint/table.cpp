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
  return options.device.modelled ? "modelled" : "measured";
}

/** A median with the least and the most, where there are several seeds. */
TextTable::Group spread_group(const std::string& heading, const FootprintOptions& options) {
  if (options.seeds == 1) return {heading, {{"GiB", heading.size()}}};
  return {heading, {{"median", 6}, {"range", 12}}};
}

std::vector<TextTable::Group> short_groups(const FootprintOptions& options) {
  return {
      {"", {{"", 14}}},
      spread_group("reserved, GiB", options),
      spread_group("saves, GiB", options),
      {"step, ms", {{"P50", 6}, {"hidden", 7}}},
      {"driver", {{"calls", 6}}},
  };
}

std::vector<TextTable::Group> all_groups(const FootprintOptions& options) {
  return {
      {"", {{"", 14}}},
      {"peaks, GiB: measured", {{"reserved"}, {"active", 6}, {"alloc", 5}}},
      {"where it went, GiB: measured",
       {{"live", 5}, {"round"}, {"streams"}, {"packing"}, {"policy", 6}}},
      {"main, calls: measured", {{"strand", 6}, {"frag", 4}, {"util", 4}, {"calls", 5}}},
      {fmt::format("step, ms: {}", basis_of(options)), {{"P50", 5}, {"P90", 5}, {"hidden"}}},
  };
}

/** The best figures of a table, which are shown in another look. */
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
  return (row.modelled_sizes() ? "~ " : "  ") + std::string{millrace::to_string(row.method)};
}

std::vector<Cell> short_cells(const FootprintRow& row, const FootprintRow& usual,
                              const Best& best) {
  const FootprintFigures& f = row.figures;
  const bool several = row.by_seed.size() > 1;
  const auto range = [](const Spread& spread) {
    return fmt::format("{} to {}", gib_short(spread.least), gib_short(spread.most));
  };
  std::vector<Cell> cells{{name_of(row)}};
  const auto add = [&](const Spread& spread, Look look) {
    cells.push_back({gib_plain(spread.median), look});
    if (several) cells.push_back({range(spread)});
  };
  add(row.reserved(), f.reserved == best.reserved ? Look::good : Look::strong);
  if (&row == &usual) {
    cells.resize(cells.size() + (several ? 2 : 1), {"–"});
  } else {
    const Spread saving = row.saving(usual);
    add(saving, saving.median < 0 ? Look::bad : Look::plain);
  }
  cells.push_back(time_cell(f.step_p50, best));
  cells.push_back(hidden_cell(f, best));
  cells.push_back({fmt::format("{:.0f}", f.all_calls())});
  return cells;
}

std::vector<Cell> all_cells(const FootprintRow& row, const Best& best) {
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
      {percent(f.utilisation())},
      {fmt::format("{:.0f}", f.all_calls())},
      time_cell(f.step_p50, best),
      time_cell(f.step_p90, best),
      hidden_cell(f, best),
  };
}

TextTable table_of(const FootprintTable& table, const FootprintOptions& options) {
  TextTable text{options.all_columns ? all_groups(options) : short_groups(options)};
  const Best best{table.rows};
  std::string_view allocator;
  for (const FootprintRow& row : table.rows) {
    if (row.allocator != allocator) {
      allocator = row.allocator;
      text.add_line({std::string{allocator}, Look::strong},
                    {std::string{idea_of(allocator)}, Look::faint});
    }
    if (row.ok()) {
      text.add_row(options.all_columns ? all_cells(row, best)
                                       : short_cells(row, *table.usual(), best));
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

std::string title(const FootprintTable& table, const FootprintOptions& options,
                  const Painter& paint) {
  const experiment::Workload& workload = table.workload;
  const std::string ahead =
      workload.run_ahead == 0
          ? "the host waits for each step"
          : fmt::format("the host enqueues at most {} operations ahead of the device",
                        workload.run_ahead);
  return fmt::format(
      "{}  {}\n{}\n",
      paint(fmt::format("{}, loop shape {}", workload.name, millrace::to_string(workload.shape)),
            Look::strong),
      paint(fmt::format("on {} ({}), {}", options.device.name, basis_of(options),
                        options.device.title),
            Look::faint),
      paint(wrap(fmt::format("Batches of {}, {} of activations; a step's compute takes {:g} x the "
                             "copy of its batch; {}; waits are {}; {} steps; {}.",
                             format_bytes(workload.mean_batch_bytes()),
                             format_bytes(workload.activations), workload.compute_to_copy, ahead,
                             meaning_of(options.waits), workload.num_batches, seeds_text(options)),
                 page_width(), 0),
            Look::faint));
}

std::string strategies_text() {
  std::string text = "How a batch is copied to the device:";
  for (const CopyStrategyTraits& traits : kCopyStrategies) {
    text += fmt::format(" {}: {}.", traits.name, traits.summary);
  }
  return text;
}

std::string modelled_text(const FootprintOptions& options) {
  if (!options.device.modelled) return "";
  return fmt::format(
      " Sizes are what the real allocators decided; times are modelled by the profile of {}; ~: "
      "sizes of the driver's pool as it is modelled there.",
      options.device.name);
}

std::string short_legend(const FootprintTable& table, const FootprintOptions& options) {
  const FootprintRow* const usual = table.usual();
  const std::string beside =
      usual == nullptr ? ""
                       : fmt::format(" saves: less than {}, {}{}.", usual->allocator,
                                     millrace::to_string(usual->method),
                                     options.seeds == 1 ? "" : ", draw by draw on the same sizes");
  return fmt::format(
      "reserved: peak of what the allocator held from the driver{}.{} P50: from the end of one "
      "step on main to the end of the next. hidden: of the time in which batches are copied, the "
      "share in which main computes. calls: driver calls a step. --columns all: where every byte "
      "went.{}",
      options.seeds == 1 ? "" : "; range: least and most of the draws", beside,
      modelled_text(options));
}

std::string all_legend(const FootprintOptions& options) {
  return fmt::format(
      "reserved = live + round + streams + packing + policy. live: peak of the requested bytes. "
      "round: lost to the rounding of sizes. streams: freed, but not yet usable by the next "
      "requester. packing: gaps, since blocks are contiguous. policy: the allocator does not "
      "know the future, and keeps memory unused. strand(ed): free bytes that main could not have "
      "when a step had been enqueued, at worst. frag: external fragmentation of what it could "
      "have. util: active / reserved. calls: driver calls a step. hidden: of the time in "
      "which batches are copied, the share in which main computes. –: the driver's pool does not "
      "say.{}",
      modelled_text(options));
}

std::string legend(const FootprintTable& table, const FootprintOptions& options) {
  const std::size_t width = page_width();
  return wrap(options.all_columns ? all_legend(options) : short_legend(table, options), width, 0) +
         '\n' + wrap(strategies_text(), width, 0);
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
    out += '\n' + render_advice(table, paint);
  }
  return out;
}

}  // namespace millrace::cli
