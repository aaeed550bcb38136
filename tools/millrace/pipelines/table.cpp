#include "pipelines/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

#include "cli/page.hpp"
#include "cli/published.hpp"
#include "cli/wording.hpp"
#include "millrace/memory/byte_size.hpp"
#include "millrace/text/units.hpp"
#include "pipelines/advice.hpp"

namespace millrace::cli {
namespace {

using Cell = TextTable::Cell;

/** The columns that identify a row. Wait modes have a column only if rows differ in them. */
TextTable::Group keys(bool waits) {
  TextTable::Group keys{"", {{"copy", 12}}};
  if (waits) keys.columns.push_back({"waits", 7});
  return keys;
}

std::vector<TextTable::Group> first_groups(bool waits) {
  return {
      {"", {{"", 10}}},
      keys(waits),
      {"peak GiB", {{"reserved"}, {"allocated"}}},
      {"loop", {{"ms", 8}}},
      {"exposed, ms", {{"copies"}, {"exchanges"}}},
  };
}

std::vector<TextTable::Group> wide_pipeline_groups() {
  return {
      {"", {{"", 13}}},
      keys(true),
      {"peaks, GiB", {{"reserved"}, {"active", 6}, {"alloc", 6}, {"strand", 6}}},
      {"loop, ms", {{"P50", 8}, {"P90", 8}, {"bound", 8}}},
      {"busy", {{"compute"}, {"H2D", 4}, {"link", 4}}},
      {"exposed, ms", {{"copies"}, {"exchanges"}}},
  };
}

std::string share(Nanoseconds part, Nanoseconds whole) {
  return percent(static_cast<double>(part.count()) / static_cast<double>(whole.count()));
}

/** The best figures of a table. They are highlighted. */
struct BestRows {
  std::size_t reserved = std::numeric_limits<std::size_t>::max();
  double runtime = std::numeric_limits<double>::max();

  explicit BestRows(const std::vector<PipelineRow>& rows) {
    for (const PipelineRow& row : rows) {
      if (!row.ok()) continue;
      reserved = std::min(reserved, row.example.memory.reserved.peak);
      runtime = std::min(runtime, row.runtime_p50);
    }
  }
};

Cell name_cell(const PipelineRow& row) { return {"  " + row.cell.allocator}; }
Cell copy_cell(const PipelineRow& row) {
  return {std::string{millrace::to_string(row.cell.options.copy)}};
}
Cell waits_cell(const PipelineRow& row) {
  return {std::string{millrace::to_string(row.cell.options.waits)}};
}
Cell reserved_cell(const PipelineRow& row, const BestRows& best) {
  const std::size_t reserved = row.example.memory.reserved.peak;
  return {gib(reserved), reserved == best.reserved ? Look::good : Look::strong};
}
Cell runtime_cell(const PipelineRow& row, const BestRows& best) {
  return {milliseconds(row.runtime_p50),
          row.runtime_p50 == best.runtime ? Look::good : Look::strong};
}
Cell time_cell(Nanoseconds value) { return {milliseconds(static_cast<double>(value.count()))}; }

std::vector<Cell> first_cells(const PipelineRow& row, const BestRows& best, bool waits) {
  const experiment::PipelineRun& run = row.example;
  std::vector<Cell> cells{name_cell(row), copy_cell(row)};
  if (waits) cells.push_back(waits_cell(row));
  cells.insert(cells.end(), {reserved_cell(row, best),
                             {gib(run.memory.allocated.peak)},
                             runtime_cell(row, best),
                             time_cell(run.engines.exposed_copies),
                             time_cell(run.engines.exposed_exchanges)});
  return cells;
}

std::vector<Cell> wide_cells(const PipelineRow& row, const BestRows& best) {
  const experiment::PipelineRun& run = row.example;
  const auto busy = [&](Engine engine) {
    return run.engines.busy[static_cast<std::size_t>(engine)];
  };
  return {
      name_cell(row),
      copy_cell(row),
      waits_cell(row),
      reserved_cell(row, best),
      {gib(run.memory.active.peak)},
      {gib(run.memory.allocated.peak)},
      {row.knows_usable() ? gib(run.stranded_peak) : "–"},
      runtime_cell(row, best),
      {milliseconds(row.runtime_p90)},
      {milliseconds(row.bound)},
      {share(busy(Engine::compute), run.runtime)},
      {share(busy(Engine::host_to_device), run.runtime)},
      {share(busy(Engine::link), run.runtime)},
      time_cell(run.engines.exposed_copies),
      time_cell(run.engines.exposed_exchanges),
  };
}

std::string loop_text(const PipelinesOptions& options) {
  const experiment::Workload& workload = options.workload;
  const std::string batches =
      fmt::format("{} batches of {} examples ({}) on each rank", workload.num_batches,
                  workload.batch_size, format_bytes(workload.mean_batch_bytes()));
  const std::string seeds = options.seeds == 1
                                ? fmt::format("seed {}", options.seed)
                                : fmt::format("medians over the seeds {} to {}", options.seed,
                                              options.seed + options.seeds - 1);
  const std::string cache =
      options.cache
          ? fmt::format("; tables in host memory, {} of their rows cached, {}",
                        options.cache->load_factor, millrace::to_string(options.cache->policy))
          : "";
  if (!options.wide) return fmt::format("{}; {}{}.", batches, seeds, cache);
  const std::string ahead = workload.run_ahead == 0
                                ? "the host waits for each step"
                                : fmt::format("the host {} operations ahead", workload.run_ahead);
  return fmt::format("{}, {}, a link of {:g} GB/s, {}{}.", batches, ahead, options.link_gb_per_s,
                     seeds, cache);
}

/** @param waits  the wait mode if all rows have the same; otherwise "" */
std::string title(const PipelinesOptions& options, std::string_view waits, const Painter& paint) {
  const experiment::Workload& workload = options.workload;
  const std::string loop =
      loop_text(options) + (waits.empty() ? "" : fmt::format(" Waits are {}.", waits));
  return fmt::format("{}\n{}\n{}\n", paint(workload.name, Look::strong),
                     paint(fmt::format("on {} x {} (modeled), {}", workload.world_size,
                                       options.device.name, options.device.title),
                           Look::faint),
                     paint(wrap(loop, page_width(), 0), Look::faint));
}

constexpr const char* kSeedOfPeaks =
    "Peaks of the rank that reserves most, tables included, of the seed with the median. loop: "
    "all batches, from the first one's copy on{}. ";
constexpr const char* kExposed =
    "exposed: copied or exchanged while nothing was computed. Sizes are what the real allocators "
    "decided; times are modeled by the device's profile, operation by operation.";

std::string legend(const PipelinesOptions& options) {
  const std::string text =
      options.wide
          ? fmt::format(kSeedOfPeaks, "") +
                "bound: what no order of the same operations can be faster than, for the data that "
                "they need of each other and the engines they share. busy: of the loop's time. " +
                kExposed
          : fmt::format(kSeedOfPeaks, " (P50)") + kExposed + " --wide: all columns.";
  return wrap(text, page_width(), 0);
}

/** A measurement of a pipeline in TorchRec's pull request 2916. The GPU is not named there. */
struct Published {
  PipelineKind pipeline;
  LookupPosition lookup;
  double runtime_ms, allocated_gb, reserved_gb;
};
constexpr std::array kPublished{
    Published{PipelineKind::sparse_dist, {}, 6034.46, 51.80, 62.25},
    Published{PipelineKind::fused_sparse_dist, LookupPosition::before_optimizer, 5661.92, 53.23,
              68.67},
    Published{PipelineKind::fused_sparse_dist, LookupPosition::after_optimizer, 5605.63, 53.23,
              68.61},
    Published{PipelineKind::semi_sync, {}, 5447.42, 61.63, 64.31},
};
constexpr std::string_view kPublishedWorkload = "pr2916";

/** The row with the options of the published run; nullptr if it does not exist. */
const PipelineRow* as_published(const std::vector<PipelineRow>& rows, const Published& published) {
  const auto is = [&](const PipelineRow& row) {
    const experiment::PipelineCell& cell = row.cell;
    return row.ok() && cell.pipeline == published.pipeline && cell.allocator == "torch" &&
           cell.options.copy == CopyMethod::side_stream && cell.options.waits == Waits::coarse &&
           cell.options.lookup.position == published.lookup &&
           cell.options.lookup.stream == LookupStream::data_dist && cell.optimizer_work == 1 &&
           !cell.forward_only && !cell.table_cache;
  };
  const auto found = std::ranges::find_if(rows, is);
  return found == rows.end() ? nullptr : &*found;
}

/** Compares rows with published figures. Runtimes are relative to SparseDist's, because the GPU is
 * unknown. */
std::string render_published(const std::vector<PipelineRow>& rows, const Painter& paint) {
  const PipelineRow* const base = as_published(rows, kPublished.front());
  if (base == nullptr) return "";
  const auto gb = [](std::size_t bytes) { return in_gb(static_cast<double>(bytes)); };
  std::string out = '\n' +
                    paint(
                        "Published (TorchRec, pull request 2916), and here with torch, "
                        "side-stream and coarse waits",
                        Look::strong) +
                    "\n  allocated and reserved in GB; runtime as a share of sparse-dist's\n";
  for (const Published& published : kPublished) {
    const PipelineRow* const row = as_published(rows, published);
    if (row == nullptr) continue;
    out += fmt::format(
        "  {:<42} allocated {:.1f}, here {:.1f}   reserved {:.1f}, here {:.1f}   runtime {:.3f}, "
        "here {:.3f}\n",
        title_of(row->cell), published.allocated_gb, gb(row->example.memory.allocated.peak),
        published.reserved_gb, gb(row->example.memory.reserved.peak),
        published.runtime_ms / kPublished.front().runtime_ms, row->runtime_p50 / base->runtime_p50);
  }
  return out;
}

}  // namespace

std::string render_table(const std::vector<PipelineRow>& rows, const PipelinesOptions& options,
                         const Painter& paint) {
  const BestRows best{rows};
  const auto waits_of = [](const PipelineRow& row) { return row.cell.options.waits; };
  const bool waits =
      std::ranges::adjacent_find(rows, std::ranges::not_equal_to{}, waits_of) != rows.end();
  TextTable table{options.wide ? wide_pipeline_groups() : first_groups(waits)};
  const PipelineRow* previous = nullptr;
  for (const PipelineRow& row : rows) {
    if (previous == nullptr || title_of(previous->cell) != title_of(row.cell)) {
      table.add_line(title_of(row.cell), Look::strong);
    }
    previous = &row;
    if (row.ok()) {
      table.add_row(options.wide ? wide_cells(row, best) : first_cells(row, best, waits));
      if (!row.races.empty()) table.add_line({"    race"}, {row.races.front(), Look::bad});
    } else {
      table.add_line({"  " + row.cell.allocator}, {row.failure, Look::bad});
    }
  }
  const std::string_view only =
      waits || rows.empty() ? "" : millrace::to_string(waits_of(rows.front()));
  std::string out = title(options, only, paint) + '\n' + table.render(paint) + '\n' +
                    paint(legend(options), Look::faint) + "\n\n" + render_advice(rows, paint);
  if (options.wide &&
      is_published(options.workload, experiment::Workload::named(kPublishedWorkload))) {
    out += render_published(rows, paint);
  }
  return out;
}

}  // namespace millrace::cli
