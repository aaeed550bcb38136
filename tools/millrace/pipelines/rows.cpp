#include "pipelines/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <span>
#include <thread>

#include "cli/figures.hpp"
#include "cli/progress.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

struct SeedRun {
  std::optional<experiment::PipelineRun> run;
  std::string failure;
  std::exception_ptr error;
};

SeedRun run_seed(const experiment::PipelineCell& cell, const experiment::Workload& workload,
                 std::uint64_t seed, Timeline* timeline) {
  SeedRun result;
  try {
    result.run = experiment::run_pipeline(cell, workload, seed, timeline);
  } catch (const out_of_memory& error) {
    result.failure = fmt::format("out of memory, seed {}: {}", seed, describe(error));
  } catch (const DeviceError& error) {
    if (error.code() != ErrorCode::out_of_memory) result.error = std::current_exception();
    result.failure = fmt::format("out of memory, seed {}: {}", seed, error.what());
  } catch (...) {
    result.error = std::current_exception();
  }
  return result;
}

std::vector<SeedRun> run_all(const PipelinesOptions& options, const PipelinesWatch& watch) {
  std::vector<SeedRun> runs(options.cells.size() * options.seeds);
  Progress progress{"pipelines", runs.size()};
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < runs.size(); i = next++) {
      const std::size_t row = i / options.seeds, seed = i % options.seeds;
      experiment::PipelineCell cell = options.cells[row];
      if (watch.recorded && seed == 0) {
        cell.recorded = [&watch, row](const auto& run) { watch.recorded(row, run); };
      }
      runs[i] = run_seed(cell, options.workload, options.seed + seed, watch.timeline);
      if (runs.size() > 1 && runs[i].run) runs[i].run->operations = {};
      progress.advance(title_of(cell));
    }
  };
  std::vector<std::jthread> others;
  if (std::thread::hardware_concurrency() > 1) others.emplace_back(work);
  work();
  return runs;
}

PipelineRow row_of(const experiment::PipelineCell& cell, std::span<SeedRun> runs) {
  PipelineRow row;
  row.cell = cell;
  std::vector<double> runtimes, bounds;
  std::vector<std::size_t> reserved;
  for (SeedRun& run : runs) {
    if (run.error) std::rethrow_exception(run.error);
    if (!run.run) {
      row.failure = run.failure;
      return row;
    }
    runtimes.push_back(static_cast<double>(run.run->runtime.count()));
    bounds.push_back(static_cast<double>(run.run->bound.runtime().count()));
    reserved.push_back(run.run->memory.reserved.peak);
    row.races.insert(row.races.end(), run.run->races.begin(), run.run->races.end());
  }
  row.runtime_p50 = percentile(runtimes, 0.5);
  row.runtime_p90 = percentile(runtimes, 0.9);
  row.bound = median(bounds);
  const auto example = std::ranges::find(reserved, median(reserved)) - reserved.begin();
  row.example = std::move(*runs[static_cast<std::size_t>(example)].run);
  return row;
}

}  // namespace

std::vector<PipelineRow> run_rows(const PipelinesOptions& options, const PipelinesWatch& watch) {
  std::vector<SeedRun> runs = run_all(options, watch);
  std::span<SeedRun> rest{runs};
  std::vector<PipelineRow> rows;
  for (const experiment::PipelineCell& cell : options.cells) {
    rows.push_back(row_of(cell, rest.first(options.seeds)));
    rest = rest.subspan(options.seeds);
  }
  return rows;
}

double examples_per_second(const PipelineRow& row, const experiment::Workload& workload) {
  const auto examples =
      static_cast<double>(workload.num_batches * workload.batch_size * workload.world_size);
  return examples / in_seconds(row.runtime_p50);
}

}  // namespace millrace::cli
