#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/output.hpp"
#include "cli/text.hpp"
#include "commands.hpp"
#include "footprint/json.hpp"
#include "footprint/options.hpp"
#include "footprint/rows.hpp"
#include "footprint/table.hpp"

namespace millrace::cli {
namespace {

void run_footprint_command(const FootprintArguments& arguments) {
  const FootprintOptions options = read_options(arguments);
  const Output output{arguments.output};
  const std::vector<FootprintTable> tables = run_tables(options);
  if (options.json) {
    output.write(to_document(tables, options).dump(2) + '\n');
  } else {
    const Painter paint{output.to_stdout() && colours_on_stdout()};
    output.write(render_tables(tables, options, paint));
  }
}

}  // namespace

void add_footprint(CLI::App& program) {
  CLI::App* const command = program.add_subcommand(
      "footprint",
      "What each allocator and copy strategy makes a training loop reserve, where every byte of it "
      "went, and what that costs in time");
  const auto given = std::make_shared<FootprintArguments>();
  const auto add = [&](const char* name, auto& value, const char* shape, const char* help) {
    command->add_option(name, value, help)->type_name(shape)->take_last();
  };
  add("--device", given->device, "NAME",
      "virtual:h200 (default), virtual:h100, virtual:a100, cuda:N");
  add("--allocator", given->allocators, "A,B|all", "torch, millrace, driver; default all");
  add("--strategy", given->strategies, "A,B|all",
      "side-stream, in-place, precise, ring, driver-async; default all");
  add("--workload", given->workload, "NAME|FILE",
      "One that ships, or a JSON file; default both that ship");
  add("--waits", given->waits, "KIND",
      "coarse (default): for all that a stream has queued; precise: for the work that is needed");
  add("--activations", given->activations, "SIZE", "Kept by forward for backward, as 4GiB");
  add("--compute-to-copy", given->compute_to_copy, "RATIO",
      "Compute time of a step over the time of its batch's copy");
  add("--run-ahead", given->run_ahead, "N",
      "Operations that the host is ahead at most; 0: it waits for each step");
  add("--batch-bytes", given->batch_bytes, "SIZE",
      "Mean size of a batch; default 1GiB for workloads that ship");
  add("--iterations", given->iterations, "N", "Steps of a run, the first 4 of them warm-up");
  add("--seed", given->seed, "S", "Of the sizes' first draw; default 1");
  add("--seeds", given->seeds, "N",
      "Draws, with the seeds S, S+1, ...; figures are their medians; default 5, on a GPU 1");
  add("--format", given->format, "KIND", "table (default), json");
  add("-o,--output", given->output, "FILE",
      "Written whole, or not at all; default standard output");
  command->callback([given] { run_footprint_command(*given); });
}

}  // namespace millrace::cli
