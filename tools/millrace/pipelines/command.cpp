#include "cli/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/fitted.hpp"
#include "cli/output.hpp"
#include "cli/results.hpp"
#include "cli/run_options.hpp"
#include "cli/text.hpp"
#include "cli/timeline.hpp"
#include "commands.hpp"
#include "pipelines/json.hpp"
#include "pipelines/options.hpp"
#include "pipelines/page.hpp"
#include "pipelines/picture.hpp"
#include "pipelines/raced.hpp"
#include "pipelines/rows.hpp"
#include "pipelines/steps.hpp"
#include "pipelines/table.hpp"

namespace millrace::cli {
namespace {

std::optional<Output> further_output(const char* option, const std::optional<std::string>& file) {
  std::optional<Output> output;
  if (file) output.emplace(file, option);
  return output;
}

/** The output of a single run. @throws UsageError if the command has several runs */
std::optional<Output> output_of_run(const char* option, const std::optional<std::string>& file,
                                    const PipelinesOptions& options) {
  if (file && (options.cells.size() != 1 || options.seeds != 1)) {
    throw UsageError{fmt::format("this option needs one run, but there are {} rows with {} seeds",
                                 options.cells.size(), options.seeds),
                     option, "one pipeline, copy strategy, wait mode and allocator, and --seeds 1"};
  }
  return further_output(option, file);
}

std::vector<PipelineRow> rows_of(const PipelinesOptions& options, const PipelinesWatch& watch) {
  try {
    return run_rows(options, watch);
  } catch (const std::invalid_argument& error) {  // found when the model is built
    throw UsageError{
        fmt::format("the model of the workload {}: {}", options.workload.name, error.what()),
        "--workload",
        "layers, widths and rows that fit each other: docs/workloads.md, docs/train.md"};
  }
}

void run_pipelines_command(const PipelinesArguments& arguments) {
  const PipelinesOptions options = read_options(arguments);
  const Results results{arguments.results};
  const auto picture = further_output("--svg", arguments.picture);
  const auto steps = output_of_run("--steps-svg", arguments.steps_picture, options);
  const auto timeline_file = output_of_run("--timeline", arguments.timeline, options);
  std::optional<Timeline> timeline;
  if (timeline_file) {
    timeline.emplace();
    timeline->note("program", "millrace pipelines");
    timeline->note("workload", options.workload.name);
    timeline->note("seed", std::to_string(options.seed));
  }
  std::optional<RecordedPage> page;
  if (arguments.html) page.emplace(pipelines_page(*arguments.html, options));
  PipelinesWatch watch;
  if (timeline) watch.timeline = &*timeline;
  if (page) {
    watch.recorded = [&](std::size_t row, const auto& run) { page->take(row, run); };
  }
  const std::vector<PipelineRow> rows = rows_of(options, watch);
  if (page) page->write();
  if (timeline) write_timeline(*timeline, *timeline_file);
  if (picture) picture->write(draw_picture(rows, options));
  if (steps) steps->write(draw_steps(rows.front(), options));
  results.write([&](const Painter& paint) { return fitted(render_table(rows, options, paint)); },
                [&] { return to_document(rows, options); });
  if (raced(rows)) throw Ended{number_of(ExitCode::raced)};
  if (std::ranges::none_of(rows, &PipelineRow::ok)) throw Ended{number_of(ExitCode::out_of_memory)};
}

/** Options whose values are compared. Each combination is a row. */
void add_compared_options(Command& command, PipelinesArguments& given) {
  command.add("--pipeline", given.pipelines, "A,B|all",
              "Compare these training pipelines (default all)");
  command.add("--copy", given.copies, "A,B|all",
              fmt::format("Compare these copy strategies: {} (default: the first three)",
                          copy_strategy_names()));
  command.add("--waits", given.waits, "A,B|all",
              "Compare these wait modes: " + choices_text(kWaits, Waits::coarse));
  command.add(
      "--allocator", given.allocators, "A,B|all",
      fmt::format("Compare these allocators: {} (default: the first two)", allocator_names()));
  const std::string fused = pipelines_with(&PipelineTraits::lookup_options);
  command.add("--lookup-position", given.lookup_positions, "A,B|all",
              lookup_position_help(fused, Values::list));
  command.add("--lookup-stream", given.lookup_streams, "A,B|all",
              lookup_stream_help(fused, Values::list));
  command.add("--optimizer-work", given.optimizer_work, "X,Y",
              "Multiply the time of the dense optimizer by each of these factors (default 1)");
  command.flag("--forward-only", given.forward_only,
               fmt::format("Evaluate instead of training; not with {}",
                           pipelines_with(&PipelineTraits::stale)));
}

/** Options that apply to all rows. */
void add_shared_options(Command& command, PipelinesArguments& given) {
  command.add("--ranks", given.ranks, "N", "Run N ranks (default: workload's world_size)");
  command.add("--steps", given.steps, "N",
              "Run N steps, one batch each (default: workload's num_batches)");
  command.former("--batches", "--steps", given.steps);
  command.add("--batch-size", given.batch_size, "N",
              "Put N examples into a batch on each rank (default: workload's batch_size)");
  command.add("--run-ahead", given.run_ahead, "N",
              "Let the host be at most N operations ahead; with 0 it waits for each step");
  command.add("--link-gb-per-s", given.link_gb_per_s, "X",
              "Set the rate at which a rank sends and receives, in 10^9 bytes/s (default: the "
              "workload's exchange_gb_per_s, otherwise the device's)");
  command.add("--cache-load-factor", given.cache_load_factor, "F",
              "Keep tables in host memory and this fraction of their rows in a cache on the "
              "device");
  command.add("--cache-policy", given.cache_policy, "NAME", cache_policy_help());
  command.add("--seed", given.seed, "S",
              "Draw the sizes of batches with this seed first (default 1)");
  command.add("--seeds", given.seeds, "N",
              "Run with N seeds S, S+1, ..., and show medians (default 3)");
}

}  // namespace

void add_pipelines(CLI::App& program) {
  Command command{
      program, "pipelines",
      "Compares training pipelines in time and memory, with each copy strategy and allocator. A "
      "model of full size runs on all ranks, on virtual devices"};
  const auto given = std::make_shared<PipelinesArguments>();
  command.input("--workload", given->workload, "NAME|FILE",
                fmt::format("Run this workload: {}, or a JSON file with a model (default "
                            "sparse_data_dist_base)",
                            fmt::join(workloads_with_models(), ", ")),
                Command::unless(workloads_with_models()));
  command.add("--device", given->device, "NAME", device_help("h100", false));
  add_compared_options(command, *given);
  add_shared_options(command, *given);
  add_wide_option(command, given->wide);
  command.output("--svg", given->picture, "FILE", "Draw runtime against peak reserved memory",
                 Result::further);
  command.output("--steps-svg", given->steps_picture, "FILE",
                 "Draw two steps of the only row's run: the work of each stream over time",
                 Result::further);
  command.output("--timeline", given->timeline, "FILE",
                 "Write a timeline of the only row's run, with all ranks, for Perfetto and "
                 "chrome://tracing",
                 Result::further);
  add_page_option(command, given->html);
  add_result_options(command, given->results);
  command.examples(
      {{"millrace pipelines --pipeline base,sparse-dist --svg pipelines.svg",
        "Compares two pipelines, and draws runtime against memory."},
       {"millrace pipelines --pipeline base --copy precise --allocator millrace --seeds 1 "
        "--steps-svg base.svg",
        "Draws what each stream does in two steps of one run."}});
  command.run([given] { run_pipelines_command(*given); });
}

}  // namespace millrace::cli
