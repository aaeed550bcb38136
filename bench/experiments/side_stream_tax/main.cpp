// Measures what a side stream costs in reserved memory and in time, by allocator and copy strategy,
// for each balance of compute to copy and each size of activations. It prints a table of medians
// over seeds. With --check it compares the results with Millrace's promises.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "bounds.hpp"
#include "millrace/text/units.hpp"
#include "sweep.hpp"

namespace {

using namespace millrace;
using namespace millrace::side_stream_tax;

void print(const std::vector<Cell>& cells) {
  fmt::print(
      "shape        waits    ahead  activ.  c/c  allocator strategy     reserved  active"
      "   step ms  hidden  calls  waits  stranded\n");
  for (const Cell& cell : cells) {
    const experiment::Workload& workload = cell.workload;
    fmt::print(
        "{:<12} {:<8} {:>5}  {:>4.0f}G {:>5}  {:<9} {:<11} {:>9.3f} {:>8.3f} {:>9.3f} {:>7.3f}"
        " {:>6.1f} {:>6.1f} {:>9.3f}\n",
        to_string(workload.shape), to_string(cell.waits), workload.run_ahead,
        in_gib(workload.activations), workload.compute_to_copy, cell.row.allocator,
        to_string(cell.row.method), cell.median(&Figures::reserved), cell.median(&Figures::active),
        cell.median(&Figures::step), cell.median(&Figures::hidden), cell.median(&Figures::calls),
        cell.median(&Figures::waits), cell.median(&Figures::stranded));
  }
}

/** Prints the verdicts. @return whether all bounds hold */
bool print(const std::vector<Verdict>& verdicts) {
  bool all = true;
  for (const Verdict& verdict : verdicts) {
    all = all && verdict.broken.empty();
    fmt::print("{} {}\n  {} settings, narrowest by {:.3f} {}: {}\n",
               verdict.broken.empty() ? "holds: " : "BROKEN:", verdict.bound, verdict.settings,
               verdict.least_margin, verdict.unit, verdict.where);
    for (const std::string& line : verdict.broken) fmt::print("  broken: {}\n", line);
  }
  return all;
}

void add_policy_options(CLI::App& app, Policy& policy) {
  app.add_option("--spare-bursts", policy.spare_bursts,
                 "Policy::spare_bursts of the preset millrace");
  app.add_option("--carve-limit", policy.carve_limit, "Policy::carve_limit");
  app.add_option("--moved-before-growth", policy.moved_before_growth,
                 "Policy::moved_before_growth");
  app.add_option("--slack", policy.slack, "Policy::slack");
  app.add_option_function<std::size_t>(
      "--large-segment-most", [&policy](std::size_t mib) { policy.large_segment_most = mib << 20; },
      "Policy::large_segment_most, in MiB");
  app.add_option_function<std::size_t>(
      "--large-segment",
      [&policy](std::size_t mib) {
        policy.large_segment_least = policy.large_segment_most = mib << 20;
      },
      "Size of all large segments, in MiB");
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  bool check = false;
  CLI::App app{"Reserved memory and step time of training loops with side streams: medians"};
  app.add_flag("--check", check,
               "hold what is promised against the sweep, by default 64 and 512 operations ahead; "
               "exit code 1 if something does not hold");
  app.add_option("--seeds", settings.seeds)->check(CLI::Range(1, 10000));
  app.add_option("--steps", settings.steps)->check(CLI::Range(6, 100000));
  app.add_option("--shape", settings.shapes)->delimiter(',');
  app.add_option("--waits", settings.waits)->delimiter(',');
  app.add_option("--balance", settings.balances)->delimiter(',');
  app.add_option("--activations", settings.activations)->delimiter(',');
  app.add_option("--run-ahead", settings.run_ahead)->delimiter(',');
  app.add_option("--batch-bytes", settings.batch_bytes);
  app.add_option("--workload", settings.workload);
  app.add_option("--variation", settings.variation, "of feature pooling between batches");
  app.add_flag("--no-tables", settings.no_tables, "leave the embedding tables out");
  add_policy_options(app, settings.policy);
  CLI11_PARSE(app, argc, argv);
  if (check && settings.run_ahead.empty()) settings.run_ahead = {64, 512};
  try {
    const std::vector<Cell> cells = sweep(settings);
    if (check) return print(hold_to_bounds(cells)) ? 0 : 1;
    print(cells);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}
