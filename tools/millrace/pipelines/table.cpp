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

namespace millrace::cli {
namespace {

using Cell = TextTable::Cell;

std::vector<TextTable::Group> groups() {
  return {
      {"", {{"", 13}}},
      {"", {{"copy", 12}, {"waits", 7}}},
      {"peaks, GiB", {{"reserved"}, {"active", 6}, {"alloc", 6}, {"strand", 6}}},
      {"loop, ms", {{"P50", 8}, {"P90", 8}, {"bound", 8}}},
      {"busy", {{"compute"}, {"H2D", 4}, {"link", 4}}},
      {"exposed, ms", {{"copies"}, {"exchanges"}}},
  };
}

std::string share(Nanoseconds part, Nanoseconds whole) {
  return percent(static_cast<double>(part.count()) / static_cast<double>(whole.count()));
}

std::vector<Cell> cells_of(const PipelineRow& row, std::size_t least, double fastest) {
  const experiment::PipelineRun& run = row.example;
  const auto busy = [&](Engine engine) {
    return run.engines.busy[static_cast<std::size_t>(engine)];
  };
  const auto time = [](Nanoseconds value) {
    return milliseconds(static_cast<double>(value.count()));
  };
  const std::size_t reserved = run.memory.reserved.peak;
  return {
      {"  " + row.cell.allocator},
      {std::string{millrace::to_string(row.cell.options.copy)}},
      {std::string{millrace::to_string(row.cell.options.waits)}},
      {gib(reserved), reserved == least ? Look::good : Look::strong},
      {gib(run.memory.active.peak)},
      {gib(run.memory.allocated.peak)},
      {row.knows_usable() ? gib(run.stranded_peak) : "–"},
      {milliseconds(row.runtime_p50), row.runtime_p50 == fastest ? Look::good : Look::strong},
      {milliseconds(row.runtime_p90)},
      {milliseconds(row.bound)},
      {share(busy(Engine::compute), run.runtime)},
      {share(busy(Engine::host_to_device), run.runtime)},
      {share(busy(Engine::link), run.runtime)},
      {time(run.engines.exposed_copies)},
      {time(run.engines.exposed_exchanges)},
  };
}

std::string title(const PipelinesOptions& options, const Painter& paint) {
  const experiment::Workload& workload = options.workload;
  const std::string ahead = workload.run_ahead == 0
                                ? "the host waits for each step"
                                : fmt::format("the host {} operations ahead", workload.run_ahead);
  return fmt::format(
      "{}  {}\n{}\n", paint(workload.name, Look::strong),
      paint(fmt::format("on {} x {} (modelled), {}", workload.world_size, options.device.name,
                        options.device.title),
            Look::faint),
      paint(wrap(fmt::format(
                     "{} batches of {} examples ({}) on each rank, {}, a link of {:g} GB/s, {}{}",
                     workload.num_batches, workload.batch_size,
                     format_bytes(workload.mean_batch_bytes()), ahead, options.link_gb_per_s,
                     options.seeds == 1 ? fmt::format("seed {}", options.seed)
                                        : fmt::format("over the seeds {} to {}", options.seed,
                                                      options.seed + options.seeds - 1),
                     options.cache
                         ? fmt::format("; tables in host memory, {} of their rows cached, {}",
                                       options.cache->load_factor,
                                       millrace::to_string(options.cache->policy))
                         : ""),
                 page_width(), 0),
            Look::faint));
}

std::string legend() {
  return wrap(
      "Peaks of the rank that reserves most, tables included, of the seed with the median. loop: "
      "all batches, from the first one's copy on. bound: what no order of the same operations can "
      "be faster than, for the data that they need of each other and the engines they share. busy: "
      "of the loop's time. "
      "exposed: copied or exchanged while nothing was computed. Sizes are what the real allocators "
      "decided; times are modelled by the device's profile, operation by operation.",
      page_width(), 0);
}

/** What was measured of a pipeline in TorchRec's pull request 2916, on GPUs that it does not name.
 */
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

/** The row with the options of the published run; nullptr if there is none. */
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

/** Compares rows with published figures. Runtimes are relative to SparseDist's, as the GPU is
 * unknown. */
std::string render_published(const std::vector<PipelineRow>& rows, const Painter& paint) {
  const PipelineRow* const base = as_published(rows, kPublished.front());
  if (base == nullptr) return "";
  const auto gb = [](std::size_t bytes) { return static_cast<double>(bytes) / 1e9; };
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
  std::size_t least = std::numeric_limits<std::size_t>::max();
  double fastest = std::numeric_limits<double>::max();
  for (const PipelineRow& row : rows) {
    if (!row.ok()) continue;
    least = std::min(least, row.example.memory.reserved.peak);
    fastest = std::min(fastest, row.runtime_p50);
  }
  TextTable table{groups()};
  const PipelineRow* previous = nullptr;
  for (const PipelineRow& row : rows) {
    if (previous == nullptr || title_of(previous->cell) != title_of(row.cell)) {
      table.add_line(title_of(row.cell), Look::strong);
    }
    previous = &row;
    if (row.ok()) {
      table.add_row(cells_of(row, least, fastest));
      if (!row.races.empty()) table.add_line({"    race"}, {row.races.front(), Look::bad});
    } else {
      table.add_line({"  " + row.cell.allocator}, {row.failure, Look::bad});
    }
  }
  std::string out = title(options, paint) + '\n' + table.render(paint) + '\n' +
                    paint(legend(), Look::faint) + '\n';
  if (is_published(options.workload, experiment::Workload::named(kPublishedWorkload))) {
    out += render_published(rows, paint);
  }
  return out;
}

}  // namespace millrace::cli
