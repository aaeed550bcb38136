#include "footprint/rows.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>

#include "cli/figures.hpp"
#include "cli/progress.hpp"

namespace millrace::cli {
namespace {

FootprintFigures figures_of(const experiment::FootprintRun& run) {
  FootprintFigures figures;
  figures.requested = run.loop.whole.requested.peak;
  figures.allocated = run.loop.whole.allocated.peak;
  figures.active = run.loop.whole.active.peak;
  figures.reserved = run.loop.whole.reserved.peak;
  figures.rounded = run.ladder.rounded;
  figures.ordered = run.ladder.ordered;
  figures.packed = run.ladder.packed;
  figures.stranded = run.loop.stranded_peak;
  figures.fragmentation = run.loop.fragmentation_mean;
  std::vector<double> steps;
  for (const Nanoseconds step : run.loop.steps) steps.push_back(static_cast<double>(step.count()));
  figures.step_p50 = percentile(steps, 0.5);
  figures.step_p90 = percentile(steps, 0.9);
  figures.step_mean = static_cast<double>(run.loop.mean_step.count());
  figures.hidden = run.loop.h2d_hidden;
  figures.calls = run.loop.calls_per_step;
  return figures;
}

template <typename Value>
Value median_of(const std::vector<FootprintFigures>& all, Value FootprintFigures::*figure) {
  std::vector<Value> values;
  for (const FootprintFigures& figures : all) values.push_back(figures.*figure);
  return median(std::move(values));
}

FootprintFigures medians(const std::vector<FootprintFigures>& all) {
  FootprintFigures result;
  using Figures = FootprintFigures;
  for (const auto figure :
       {&Figures::requested, &Figures::allocated, &Figures::active, &Figures::reserved,
        &Figures::rounded, &Figures::ordered, &Figures::packed, &Figures::stranded}) {
    result.*figure = median_of(all, figure);
  }
  for (const auto figure : {&Figures::fragmentation, &Figures::step_p50, &Figures::step_p90,
                            &Figures::step_mean, &Figures::hidden}) {
    result.*figure = median_of(all, figure);
  }
  for (std::size_t call = 0; call < result.calls.size(); ++call) {
    std::vector<double> values;
    for (const FootprintFigures& figures : all) values.push_back(figures.calls[call]);
    result.calls[call] = median(std::move(values));
  }
  return result;
}

/** One run: a row of a table with the batch sizes of one seed. */
struct SeedCell {
  FootprintTable* table;
  FootprintRow* row;
  std::size_t number;  ///< number of the row over all tables
  std::size_t seed;
  std::optional<experiment::FootprintRun> run;
  std::string failure;
  std::exception_ptr error;
};

void run_cell(SeedCell& cell, const FootprintOptions& options,
              const std::vector<InputShape>& batches, const FootprintWatch& watch,
              Progress& progress) {
  experiment::FootprintCell what;
  what.device = options.device.name;
  what.allocator = cell.row->allocator;
  what.loop.method = cell.row->method;
  what.loop.waits = options.waits;
  what.loop.step_done = [&] { progress.step(); };
  if (cell.seed == 0) {
    what.timeline = watch.timeline;
    if (watch.recorded) {
      what.recorded = [&](const experiment::RecordedRun& run) { watch.recorded(cell.number, run); };
    }
  }
  try {
    cell.run = experiment::run_footprint(what, cell.table->workload, batches);
  } catch (const out_of_memory& error) {
    cell.failure = describe(error);
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    cell.failure = error.what();
  }
}

/** Calls `work` for each index below `count`: two at a time on virtual devices, one at a time on a
 * GPU. */
template <typename Work>
void for_each_index(std::size_t count, const FootprintOptions& options, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto work_on = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const unsigned cores = std::max(1U, std::thread::hardware_concurrency());
  const unsigned threads = options.device.modeled ? std::min(2U, cores) : 1;
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work_on);
  work_on();
}

using Draws = std::vector<std::vector<InputShape>>;  // by seed

Draws draw(const experiment::Workload& workload, const FootprintOptions& options) {
  Progress progress{"footprint, sizes of batches", options.seeds};
  Draws draws(options.seeds);
  for_each_index(draws.size(), options, [&](std::size_t i) {
    draws[i] = experiment::draw_batches(workload, workload.num_batches, options.seed + i);
    progress.advance();
  });
  return draws;
}

std::vector<FootprintTable> empty_tables(const FootprintOptions& options) {
  std::vector<FootprintTable> tables;
  for (const experiment::Workload& workload : options.workloads) {
    FootprintTable& table = tables.emplace_back();
    table.workload = workload;
    for (const std::string& allocator : options.allocators) {
      for (const CopyMethod method : options.methods) {
        FootprintRow& row = table.rows.emplace_back();
        row.allocator = allocator;
        row.method = method;
      }
    }
  }
  return tables;
}

std::vector<SeedCell> cells_of(std::vector<FootprintTable>& tables, std::size_t seeds) {
  std::vector<SeedCell> cells;
  std::size_t number = 0;
  for (FootprintTable& table : tables) {
    for (FootprintRow& row : table.rows) {
      for (std::size_t seed = 0; seed < seeds; ++seed) {
        cells.push_back({&table, &row, number, seed, std::nullopt, "", nullptr});
      }
      ++number;
    }
  }
  return cells;
}

void run_cells(std::vector<SeedCell>& cells, const FootprintOptions& options,
               const std::vector<Draws>& draws, const FootprintTable* first,
               const FootprintWatch& watch) {
  Progress progress{"footprint", cells.size()};
  for_each_index(cells.size(), options, [&](std::size_t i) {
    SeedCell& cell = cells[i];
    const auto table = static_cast<std::size_t>(cell.table - first);
    try {
      run_cell(cell, options, draws[table][cell.seed], watch, progress);
    } catch (...) {
      cell.error = std::current_exception();
    }
    const std::string name =
        fmt::format("{} {}", cell.row->allocator, millrace::to_string(cell.row->method));
    spdlog::debug("{} {} seed {} done", cell.table->workload.name, name, options.seed + cell.seed);
    progress.advance(name);
  });
}

void take_over(FootprintRow& row, std::span<SeedCell> cells, std::uint64_t first_seed) {
  for (SeedCell& cell : cells) {
    if (cell.error) std::rethrow_exception(cell.error);
    if (!cell.failure.empty() && row.ok()) {
      row.failure = fmt::format("out of memory, seed {}: {}", first_seed + cell.seed, cell.failure);
    }
  }
  if (!row.ok()) return;
  for (const SeedCell& cell : cells) {
    row.by_seed.push_back(figures_of(*cell.run));
    if (!cell.run->races) continue;
    if (!row.races) row.races.emplace();
    row.races->insert(row.races->end(), cell.run->races->begin(), cell.run->races->end());
  }
  row.figures = medians(row.by_seed);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (row.by_seed[i].reserved != row.figures.reserved) continue;
    row.example = std::move(*cells[i].run);
    return;
  }
}

}  // namespace

double FootprintFigures::all_calls() const {
  return std::accumulate(calls.begin(), calls.end(), 0.0);
}

std::string FootprintRow::stream_name(StreamId stream) const {
  const auto known = example.loop.streams.find(stream);
  return known == example.loop.streams.end() ? "another stream" : known->second;
}

Spread FootprintRow::reserved() const {
  std::vector<double> values;
  for (const FootprintFigures& f : by_seed) values.push_back(static_cast<double>(f.reserved));
  return spread_of(values);
}

Spread FootprintRow::saving(const FootprintRow& from) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < by_seed.size(); ++i) {
    values.push_back(static_cast<double>(from.by_seed[i].reserved) -
                     static_cast<double>(by_seed[i].reserved));
  }
  return spread_of(values);
}

Spread FootprintRow::longer_step(const FootprintRow& from) const {
  std::vector<double> values;
  for (std::size_t i = 0; i < by_seed.size(); ++i) {
    values.push_back(by_seed[i].step_p50 - from.by_seed[i].step_p50);
  }
  return spread_of(values);
}

const FootprintRow* FootprintTable::usual() const {
  if (const FootprintRow* const row = find("torch", CopyMethod::side_stream)) return row;
  const FootprintRow* most = nullptr;
  for (const FootprintRow& row : rows) {
    if (!row.ok()) continue;
    if (most == nullptr || row.figures.reserved > most->figures.reserved) most = &row;
  }
  return most;
}

const FootprintRow* FootprintTable::find(std::string_view allocator, CopyMethod method) const {
  for (const FootprintRow& row : rows) {
    if (row.allocator == allocator && row.method == method && row.ok()) return &row;
  }
  return nullptr;
}

std::vector<FootprintTable> run_tables(const FootprintOptions& options,
                                       const FootprintWatch& watch) {
  std::vector<Draws> draws;
  for (std::size_t i = 0; i < options.workloads.size(); ++i) {
    const bool known = i > 0 &&
                       options.workloads[i].num_batches == options.workloads[i - 1].num_batches &&
                       experiment::same_batches(options.workloads[i], options.workloads[i - 1]);
    draws.push_back(known ? draws.back() : draw(options.workloads[i], options));
  }
  std::vector<FootprintTable> tables = empty_tables(options);
  std::vector<SeedCell> cells = cells_of(tables, options.seeds);
  run_cells(cells, options, draws, tables.data(), watch);

  std::span<SeedCell> rest{cells};
  for (FootprintTable& table : tables) {
    for (FootprintRow& row : table.rows) {
      take_over(row, rest.first(options.seeds), options.seed);
      rest = rest.subspan(options.seeds);
    }
  }
  return tables;
}

}  // namespace millrace::cli
