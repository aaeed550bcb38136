#include "cli/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/fitted.hpp"
#include "cli/output.hpp"
#include "cli/results.hpp"
#include "cli/run_options.hpp"
#include "cli/text.hpp"
#include "cli/timeline.hpp"
#include "cli/without_effect.hpp"
#include "commands.hpp"
#include "footprint/json.hpp"
#include "footprint/options.hpp"
#include "footprint/page.hpp"
#include "footprint/raced.hpp"
#include "footprint/rows.hpp"
#include "footprint/table.hpp"
#include "footprint/trace.hpp"

namespace millrace::cli {
namespace {

constexpr const char* kTimeline = "--timeline";

void note_options(Timeline& timeline, const FootprintOptions& options) {
  const experiment::Workload& workload = options.workloads.front();
  timeline.note("program", "millrace footprint");
  timeline.note("workload", workload.name);
  timeline.note("loop", to_string(workload.shape));
  timeline.note("waits", to_string(options.waits));
  timeline.note("seed", std::to_string(options.seed));
  timeline.note("steps", std::to_string(workload.num_batches));
}

bool none_fits(const std::vector<FootprintTable>& tables) {
  return std::ranges::all_of(tables,
                             [](const FootprintTable& table) { return table.usual() == nullptr; });
}

constexpr const char* kInit = "--init";

/** Writes the workload with the values of the options. It runs nothing. */
void write_workload(const FootprintArguments& arguments, const FootprintOptions& options) {
  const auto refuse = [](const char* option, const std::optional<std::string>& given) {
    refuse_without_effect(option, given.has_value(), "--init writes a workload and runs nothing",
                          "without --init");
  };
  refuse(kTimeline, arguments.timeline);
  refuse("--html", arguments.html);
  refuse("--record", arguments.record);
  refuse("--snapshot", arguments.snapshot);
  refuse("--json", arguments.results.json);
  refuse("-o", arguments.results.output);
  const Output output{arguments.init, kInit};
  if (!output.to_stdout() && std::filesystem::is_regular_file(*arguments.init)) {
    throw UsageError{"this file exists, and may be a workload that you changed", kInit,
                     "the name of a new file"};
  }
  output.write(options.workloads.front().to_json() + '\n');
  if (!output.to_stdout()) {
    fmt::print("Wrote {0}. Change it, then run it: millrace footprint --workload {0}\n",
               *arguments.init);
  }
}

void run_footprint_command(const FootprintArguments& arguments) {
  const FootprintOptions options = read_options(arguments);
  if (arguments.init) return write_workload(arguments, options);
  const Results results{arguments.results};
  std::optional<Output> timeline_file;
  std::optional<Timeline> timeline;
  if (arguments.timeline) {
    check_one_run(options, kTimeline, "timeline");
    timeline_file.emplace(arguments.timeline, kTimeline);
    note_options(timeline.emplace(), options);
  }
  std::optional<RecordedPage> page;
  if (arguments.html) page.emplace(footprint_page(*arguments.html, options));
  std::optional<FootprintTrace> trace, snapshot;
  if (arguments.record) trace.emplace(kRecordForm, *arguments.record, options);
  if (arguments.snapshot) snapshot.emplace(kSnapshotForm, *arguments.snapshot, options);
  FootprintWatch watch;
  if (timeline) watch.timeline = &*timeline;
  if (page || trace || snapshot) {
    watch.recorded = [&](std::size_t row, const auto& run) {
      if (page) page->take(row, run);
      if (trace) trace->keep(run);
      if (snapshot) snapshot->keep(run);
    };
  }
  const std::vector<FootprintTable> tables = run_tables(options, watch);
  if (page) page->write();
  if (trace) trace->write();
  if (snapshot) snapshot->write();
  if (timeline) write_timeline(*timeline, *timeline_file);
  results.write([&](const Painter& paint) { return fitted(render_tables(tables, options, paint)); },
                [&] { return to_document(tables, options); });
  if (raced(tables)) throw Ended{number_of(ExitCode::raced)};
  if (none_fits(tables)) throw Ended{number_of(ExitCode::out_of_memory)};
}

}  // namespace

void add_footprint(CLI::App& program) {
  Command command{
      program, "footprint",
      "Runs a training loop with each allocator and copy strategy, and prints what it reserves, "
      "where every byte went, and what that costs in time"};
  const auto given = std::make_shared<FootprintArguments>();
  command.add("--device", given->device, "NAME", device_help("h200", true));
  command.add("--allocator", given->allocators, "A,B|all",
              fmt::format("Compare these allocators: {} (default all)", allocator_names()));
  command.add(
      "--copy", given->copies, "A,B|all",
      fmt::format("Compare these copy strategies: {} (default all)", copy_strategy_names()));
  command.former("--strategy", "--copy", given->copies);
  command.input("--workload", given->workload, "NAME|FILE",
                fmt::format("Run this workload: {}, or a JSON file (default: sparse_data_dist_base "
                            "and train_pipeline_base)",
                            fmt::join(experiment::Workload::names(), ", ")),
                Command::unless(experiment::Workload::names()));
  command.add("--waits", given->waits, "KIND", waits_help());
  command.add("--activations", given->activations, "SIZE",
              "Keep this many bytes from forward for backward, for instance 4GiB");
  command.add("--compute-to-copy", given->compute_to_copy, "RATIO",
              "Set the compute time of a step, as a multiple of its batch's copy time");
  command.add("--run-ahead", given->run_ahead, "N",
              "Let the host be at most N operations ahead; with 0 it waits for each step");
  command.add("--batch-bytes", given->batch_bytes, "SIZE",
              "Set the mean size of a batch (default: 1GiB for built-in workloads)");
  command.add("--steps", given->steps, "N",
              "Run N steps, of which the first 4 are the warm-up (default: workload's "
              "num_batches)");
  command.former("--iterations", "--steps", given->steps);
  command.add("--seed", given->seed, "S",
              "Draw the sizes of batches with this seed first (default 1)");
  command.add("--seeds", given->seeds, "N",
              "Run with N seeds S, S+1, ..., and show medians (default 16, on a GPU 1)");
  add_wide_option(command, given->wide);
  command.output(kInit, given->init, "FILE",
                 "Write the workload as a JSON file to begin your own with; run nothing",
                 Result::further);
  command.output("--timeline", given->timeline, "FILE",
                 "Write a timeline of the only row's run with the first seed, for Perfetto and "
                 "chrome://tracing",
                 Result::further);
  command.output("--record", given->record, "FILE",
                 "Write a trace of the only row's run with the first seed, for millrace replay and "
                 "millrace explain",
                 Result::further);
  command.output("--snapshot", given->snapshot, "FILE",
                 "Write that trace as a PyTorch snapshot, for PyTorch's viewer", Result::further);
  add_page_option(command, given->html);
  add_result_options(command, given->results);
  command.examples({{"millrace footprint --allocator torch,millrace --copy side-stream,precise",
                     "Compares two allocators and two copy strategies on the built-in workloads."},
                    {"millrace footprint --init mine.json",
                     "Writes a workload to begin your own with; --workload mine.json runs it."}});
  command.run([given] { run_footprint_command(*given); });
}

}  // namespace millrace::cli
