#include "sweep.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <thread>

#include "millrace/memory/byte_size.hpp"
#include "millrace/text/parse_enum.hpp"
#include "millrace/text/units.hpp"

namespace millrace::side_stream_tax {
namespace {

/** Caches drawn batches by seed. Shape, balance and activations do not influence their sizes. */
class DrawnBatches {
 public:
  std::vector<InputShape> get(const experiment::Workload& workload, std::size_t count,
                              std::uint64_t seed) {
    const std::lock_guard lock{mutex_};
    auto& batches = drawn_[seed];
    if (batches.empty()) batches = experiment::draw_batches(workload, count, seed);
    return batches;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<InputShape>> drawn_;
};

Figures run(const Cell& cell, const Settings& settings, const std::vector<InputShape>& batches) {
  experiment::FootprintCell what;
  what.allocator = cell.row.allocator;
  if (what.allocator == "millrace") what.policy = settings.policy;
  what.loop.method = cell.row.method;
  what.loop.waits = cell.waits;
  const experiment::FootprintRun result = experiment::run_footprint(what, cell.workload, batches);
  Figures figures;
  figures.reserved = in_gib(result.loop.whole.reserved.peak);
  figures.active = in_gib(result.loop.whole.active.peak);
  figures.step = in_milliseconds(result.loop.mean_step);
  figures.hidden = result.loop.h2d_hidden;
  for (const double calls : result.loop.calls_per_step) figures.calls += calls;
  figures.waits =
      static_cast<double>(result.counts.waits_inserted) / static_cast<double>(settings.steps);
  figures.stranded = result.loop.stranded_mean / kGiB;
  return figures;
}

experiment::Workload base_workload(const Settings& settings) {
  experiment::Workload workload = experiment::Workload::named(settings.workload);
  workload = workload.scaled_to(parse_bytes(settings.batch_bytes));
  if (settings.variation) workload.feature_pooling_variation = *settings.variation;
  if (settings.no_tables) workload.base_row_size = 1, workload.additional_tables.clear();
  return workload;
}

std::vector<Cell> cells_of(const Settings& settings) {
  experiment::Workload workload = base_workload(settings);
  std::vector<unsigned> run_ahead = settings.run_ahead;
  if (run_ahead.empty()) run_ahead.push_back(workload.run_ahead);

  std::vector<Cell> cells;
  const auto add_rows = [&](const std::string& waits) {
    for (const Row& row : kRows) {
      cells.push_back({workload, text::parse_enum("wait mode", waits, kWaits), row, {}});
      cells.back().by_seed.resize(settings.seeds);
    }
  };
  for (const std::string& shape : settings.shapes) {
    workload.shape = parse_pipeline_kind(shape);
    for (const std::string& waits : settings.waits) {
      for (const unsigned ahead : run_ahead) {
        workload.run_ahead = ahead;
        for (const std::string& activations : settings.activations) {
          workload.activations = parse_bytes(activations);
          for (const double balance : settings.balances) {
            workload.compute_to_copy = balance;
            add_rows(waits);
          }
        }
      }
    }
  }
  return cells;
}

}  // namespace

double Cell::median(Figure figure) const {
  std::vector<double> values;
  for (const Figures& figures : by_seed) values.push_back(figures.*figure);
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double Cell::mean(Figure figure) const {
  const double sum =
      std::accumulate(by_seed.begin(), by_seed.end(), 0.0,
                      [&](double so_far, const Figures& run) { return so_far + run.*figure; });
  return sum / static_cast<double>(by_seed.size());
}

std::vector<Cell> sweep(const Settings& settings) {
  std::vector<Cell> cells = cells_of(settings);
  DrawnBatches drawn;
  const std::size_t runs = cells.size() * settings.seeds;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t i = next++; i < runs; i = next++) {
      Cell& cell = cells[i / settings.seeds];
      const std::size_t seed = i % settings.seeds;
      try {
        const auto batches = drawn.get(cell.workload, settings.steps, seed + 1);
        cell.by_seed[seed] = run(cell, settings, batches);
      } catch (...) {
        next = runs;
        const std::lock_guard lock{mutex};
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1U, 2U);
    for (unsigned i = 0; i < count; ++i) threads.emplace_back(work);
  }
  if (failure) std::rethrow_exception(failure);
  return cells;
}

}  // namespace millrace::side_stream_tax
