// What a side stream costs in reserved memory and in time, by allocator and copy strategy:
// medians over seeds, for each balance of compute to copy and each size of activations.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "millrace/pipeline/data/byte_size.hpp"
#include "millrace/pipeline/schedule/footprint.hpp"

namespace {

using namespace millrace;

struct Row {
  const char* allocator;
  CopyMethod method;
};
constexpr std::array kRows{
    Row{"torch", CopyMethod::side_stream},    Row{"torch", CopyMethod::in_place},
    Row{"millrace", CopyMethod::side_stream}, Row{"millrace", CopyMethod::in_place},
    Row{"millrace", CopyMethod::precise},
};

struct Arguments {
  std::vector<double> balances{0.5, 1, 2, 5};
  std::vector<std::string> activations{"4GiB", "20GiB"};
  std::vector<std::string> shapes{"sparse-dist", "base"};
  std::vector<std::string> waits{"coarse"};
  std::vector<unsigned> run_ahead;
  std::string workload = "sparse_data_dist_base";
  std::string batch_bytes = "1GiB";
  std::size_t seeds = 16;
  std::size_t iterations = 20;
  double variation = -1;
  bool no_tables = false;
  double spare_bursts = -1;
  double carve_limit = 0;
  std::size_t large_segment_mib = 0;
};

struct Figures {
  double reserved = 0, active = 0, step = 0, hidden = 0, calls = 0, waits = 0, stranded = 0;
};

/** One line of a table: a row at one setting. */
struct Job {
  Workload workload;
  Waits waits;
  Row row;
  std::vector<Figures> by_seed;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median(const std::vector<Figures>& figures, double Figures::*figure) {
  std::vector<double> values;
  for (const Figures& entry : figures) values.push_back(entry.*figure);
  return median(std::move(values));
}

/** Batches are drawn once for each seed: sizes do not depend on balance or activations. */
class DrawnBatches {
 public:
  std::vector<InputShape> get(const Workload& workload, std::size_t count, std::uint64_t seed) {
    const std::lock_guard lock{mutex_};
    auto& batches = drawn_[seed];
    if (batches.empty()) batches = draw_batches(workload, count, seed);
    return batches;
  }

 private:
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<InputShape>> drawn_;
};

Figures run(const Job& job, const Arguments& arguments, DrawnBatches& drawn, std::uint64_t seed) {
  FootprintCell cell;
  cell.allocator = job.row.allocator;
  if (cell.allocator == "millrace") {
    Policy policy = Policy::millrace();
    if (arguments.spare_bursts >= 0) policy.spare_bursts = arguments.spare_bursts;
    if (arguments.carve_limit > 0) policy.carve_limit = arguments.carve_limit;
    if (arguments.large_segment_mib > 0) {
      policy.large_segment_least = policy.large_segment_most = arguments.large_segment_mib << 20;
    }
    cell.policy = policy;
  }
  cell.loop.method = job.row.method;
  cell.loop.waits = job.waits;
  const FootprintRun result =
      run_footprint(cell, job.workload, drawn.get(job.workload, arguments.iterations, seed));
  constexpr double gib = 1 << 30;
  Figures figures;
  figures.reserved = static_cast<double>(result.loop.whole.reserved.peak) / gib;
  figures.active = static_cast<double>(result.loop.whole.active.peak) / gib;
  figures.step = static_cast<double>(result.loop.mean_step.count()) / 1e6;
  figures.hidden = result.loop.h2d_hidden;
  for (const double calls : result.loop.calls_per_step) figures.calls += calls;
  figures.waits =
      static_cast<double>(result.counts.waits_inserted) / static_cast<double>(arguments.iterations);
  figures.stranded = result.loop.stranded_mean / gib;
  return figures;
}

void run_all(std::vector<Job>& jobs, const Arguments& arguments) {
  DrawnBatches drawn;
  std::atomic<std::size_t> next{0};
  const std::size_t cells = jobs.size() * arguments.seeds;
  for (Job& job : jobs) job.by_seed.resize(arguments.seeds);
  const auto work = [&] {
    for (std::size_t cell = next++; cell < cells; cell = next++) {
      Job& job = jobs[cell / arguments.seeds];
      const std::size_t seed = cell % arguments.seeds;
      job.by_seed[seed] = run(job, arguments, drawn, seed + 1);
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1U, std::min(2U, std::thread::hardware_concurrency())); ++i) {
    threads.emplace_back(work);
  }
}

std::vector<Job> make_jobs(const Arguments& arguments) {
  Workload base = Workload::named(arguments.workload);
  base = base.scaled_to(parse_bytes(arguments.batch_bytes));
  if (arguments.variation >= 0) base.feature_pooling_variation = arguments.variation;
  if (arguments.no_tables) base.base_row_size = 1, base.additional_tables.clear();
  std::vector<unsigned> run_ahead = arguments.run_ahead;
  if (run_ahead.empty()) run_ahead.push_back(base.run_ahead);

  std::vector<Job> jobs;
  for (const std::string& shape : arguments.shapes) {
    for (const std::string& waits : arguments.waits) {
      for (const unsigned ahead : run_ahead) {
        for (const std::string& activations : arguments.activations) {
          for (const double balance : arguments.balances) {
            Workload workload = base;
            workload.shape = parse_loop_shape(shape);
            workload.run_ahead = ahead;
            workload.activations = parse_bytes(activations);
            workload.compute_to_copy = balance;
            for (const Row& row : kRows) {
              jobs.push_back(
                  {workload, waits == "precise" ? Waits::precise : Waits::coarse, row, {}});
            }
          }
        }
      }
    }
  }
  return jobs;
}

void print(const std::vector<Job>& jobs) {
  fmt::print(
      "shape        waits    ahead  activ.  c/c  allocator strategy     reserved  active"
      "   step ms  hidden  calls  waits  stranded\n");
  for (const Job& job : jobs) {
    const auto middle = [&](double Figures::*figure) { return median(job.by_seed, figure); };
    fmt::print(
        "{:<12} {:<8} {:>5}  {:>4.0f}G {:>5}  {:<9} {:<11} {:>9.3f} {:>8.3f} {:>9.3f} {:>7.3f}"
        " {:>6.1f} {:>6.1f} {:>9.3f}\n",
        to_string(job.workload.shape), job.waits == Waits::coarse ? "coarse" : "precise",
        job.workload.run_ahead, static_cast<double>(job.workload.activations) / (1 << 30),
        job.workload.compute_to_copy, job.row.allocator, to_string(job.row.method),
        middle(&Figures::reserved), middle(&Figures::active), middle(&Figures::step),
        middle(&Figures::hidden), middle(&Figures::calls), middle(&Figures::waits),
        middle(&Figures::stranded));
  }
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{"Reserved memory and step time of training loops with side streams: medians"};
  app.add_option("--seeds", arguments.seeds)->check(CLI::Range(1, 10000));
  app.add_option("--iterations", arguments.iterations)->check(CLI::Range(6, 100000));
  app.add_option("--shape", arguments.shapes)->delimiter(',');
  app.add_option("--waits", arguments.waits)->delimiter(',');
  app.add_option("--balance", arguments.balances)->delimiter(',');
  app.add_option("--activations", arguments.activations)->delimiter(',');
  app.add_option("--run-ahead", arguments.run_ahead)->delimiter(',');
  app.add_option("--batch-bytes", arguments.batch_bytes);
  app.add_option("--workload", arguments.workload);
  app.add_option("--variation", arguments.variation, "of feature pooling between batches");
  app.add_flag("--no-tables", arguments.no_tables, "leave the embedding tables out");
  app.add_option("--spare-bursts", arguments.spare_bursts, "in place of the millrace policy's");
  app.add_option("--carve-limit", arguments.carve_limit, "in place of the millrace policy's");
  app.add_option("--large-segment", arguments.large_segment_mib, "MiB, likewise");
  CLI11_PARSE(app, argc, argv);
  try {
    std::vector<Job> jobs = make_jobs(arguments);
    run_all(jobs, arguments);
    print(jobs);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
