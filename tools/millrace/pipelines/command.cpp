#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

#include "cli/add_option.hpp"
#include "cli/error.hpp"
#include "cli/exit_codes.hpp"
#include "cli/output.hpp"
#include "cli/text.hpp"
#include "cli/timeline.hpp"
#include "commands.hpp"
#include "pipelines/json.hpp"
#include "pipelines/options.hpp"
#include "pipelines/picture.hpp"
#include "pipelines/raced.hpp"
#include "pipelines/rows.hpp"
#include "pipelines/steps.hpp"
#include "pipelines/table.hpp"

namespace millrace::cli {
namespace {

/** A further file, if there is to be one. */
std::optional<Output> further_output(const char* option, const std::optional<std::string>& file,
                                     const Output& table) {
  if (!file) return std::nullopt;
  std::optional<Output> output;
  output.emplace(file, option);
  if (output->same_as(table)) {
    throw UsageError{"two things can not go to one place", option, "a file of its own"};
  }
  return output;
}

/** Of one run, and that there is but one. */
std::optional<Output> output_of_run(const char* option, const std::optional<std::string>& file,
                                    const PipelinesOptions& options, const Output& table) {
  if (file && (options.cells.size() != 1 || options.seeds != 1)) {
    throw UsageError{fmt::format("this is of one run, and there are {} rows with {} seeds",
                                 options.cells.size(), options.seeds),
                     option,
                     "one pipeline, copy strategy, kind of waits and allocator, and --seeds 1"};
  }
  return further_output(option, file, table);
}

std::vector<PipelineRow> rows_of(const PipelinesOptions& options, Timeline* timeline) {
  try {
    return run_rows(options, timeline);
  } catch (const std::invalid_argument& error) {  // what only the model itself can tell
    throw UsageError{
        error.what(), "the model of the workload " + options.workload.name,
        "layers, widths and rows that fit each other: docs/workloads.md, docs/train.md"};
  }
}

void run_pipelines_command(const PipelinesArguments& arguments) {
  const PipelinesOptions options = read_options(arguments);
  const Output output{arguments.output};
  const auto picture = further_output("--svg", arguments.picture, output);
  const auto steps = output_of_run("--steps", arguments.steps, options, output);
  const auto timeline_file = output_of_run("--timeline", arguments.timeline, options, output);
  std::optional<Timeline> timeline;
  if (timeline_file) {
    timeline.emplace();
    timeline->note("program", "millrace pipelines");
    timeline->note("workload", options.workload.name);
    timeline->note("seed", std::to_string(options.seed));
  }
  const std::vector<PipelineRow> rows = rows_of(options, timeline ? &*timeline : nullptr);
  if (timeline) write_timeline(*timeline, *timeline_file);
  if (picture) picture->write(draw_picture(rows, options));
  if (steps) steps->write(draw_steps(rows.front(), options));
  if (options.json) {
    output.write(to_document(rows, options).dump(2) + '\n');
  } else {
    const Painter paint{output.to_stdout() && colours_on_stdout()};
    output.write(render_table(rows, options, paint));
  }
  if (raced(rows)) throw Ended{kRaced};
  if (std::ranges::none_of(rows, &PipelineRow::ok)) throw Ended{kOutOfMemory};
}

}  // namespace

void add_pipelines(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "pipelines",
      "What each training pipeline buys in time and costs in memory, with each copy strategy and "
      "allocator: a model at full size on all ranks, on virtual devices");
  const auto given = std::make_shared<PipelinesArguments>();
  const auto add = options_of(*command);
  add("--workload", given->workload, "NAME|FILE",
      "sparse_data_dist_base (default), heavy_dense, pr2916, or a JSON file with a model");
  add("--device", given->device, "NAME", "virtual:h100 (default), virtual:h200, virtual:a100");
  add("--pipeline", given->pipelines, "A,B|all", "Default all");
  add("--copy", given->copies, "A,B|all",
      "side-stream, in-place, precise, ring, driver-async; default the first three");
  add("--waits", given->waits, "A,B|all", "coarse (default), precise");
  add("--allocator", given->allocators, "A,B|all",
      "torch, millrace, driver; default the first two");
  add("--lookup-position", given->lookup_positions, "A,B|all",
      "Of fused-sparse-dist: after-optimizer (default), before-optimizer, after-data-dist");
  add("--lookup-stream", given->lookup_streams, "A,B|all",
      "Of fused-sparse-dist: data-dist (default), own, main");
  add("--optimizer-work", given->optimizer_work, "X,Y",
      "The dense optimizer takes so many times what its own work takes; default 1");
  command->add_flag("--forward-only", given->forward_only,
                    "Evaluates instead of training; not with semi-sync");
  add("--ranks", given->ranks, "N", "In place of the workload's world_size");
  add("--batches", given->batches, "N", "In place of the workload's num_batches");
  add("--batch-size", given->batch_size, "N", "Examples of a rank, in place of the workload's");
  add("--run-ahead", given->run_ahead, "N",
      "Operations that the host is ahead at most; 0: it waits for each step");
  add("--link-gb-per-s", given->link_gb_per_s, "X",
      "What a rank sends, and receives, in 10^9 bytes/s; default the workload's exchange_gb_per_s, "
      "else the device's");
  add("--cache-load-factor", given->cache_load_factor, "F",
      "Tables in host memory, and this share of their rows in a cache on the device");
  add("--cache-policy", given->cache_policy, "NAME", "Of that cache: lru (default), lfu");
  add("--seed", given->seed, "S", "Of the sizes' first draw; default 1");
  add("--seeds", given->seeds, "N", "Draws, with the seeds S, S+1, ...; default 3");
  add("--format", given->format, "KIND", "table (default), json");
  add("--svg", given->picture, "FILE", "A picture: runtime against peak reserved memory");
  add("--steps", given->steps, "FILE",
      "A picture of two steps of the only row's run: what each stream did, and when");
  add("--timeline", given->timeline, "FILE",
      "A timeline of the only row's run, all ranks, for Perfetto and chrome://tracing");
  add("-o,--output", given->output, "FILE",
      "Written whole, or not at all; default standard output");
  command->callback([given] { run_pipelines_command(*given); });
}

}  // namespace millrace::cli
