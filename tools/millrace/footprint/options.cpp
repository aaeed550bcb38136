#include "footprint/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/run_options.hpp"

namespace millrace::cli {
namespace {

constexpr const char* kSparseDist = "sparse_data_dist_base";
constexpr const char* kBase = "train_pipeline_base";
constexpr std::size_t kBatchBytes = std::size_t{1} << 30;  // of built-in workloads
// With this many seeds, medians over different sets of seeds have a standard deviation of 2%. For
// savings it is 0.2 to 0.7 GiB (docs/footprint.md).
constexpr std::size_t kModeledSeeds = 16;

constexpr std::size_t kMostBatchBytes = std::size_t{64} << 30;
constexpr std::size_t kMostActivations = std::size_t{1} << 40;

bool ships(const std::string& name) {
  const std::vector<std::string> names = experiment::Workload::names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

experiment::Workload read_workload(const std::string& text) {
  if (ships(text)) return experiment::Workload::named(text).scaled_to(kBatchBytes);
  const bool file = std::filesystem::exists(text) || text.find('/') != std::string::npos ||
                    text.ends_with(".json");
  if (!file) {
    static_cast<void>(read_name("--workload", "workload", text, experiment::Workload::names()));
  }
  try {
    return experiment::Workload::load(text);
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--workload",
                     fmt::format("a JSON file as docs/workloads.md says, or one of {}",
                                 fmt::join(experiment::Workload::names(), ", "))};
  }
}

/** Replaces values of the workload by the given options. */
experiment::Workload adapted(experiment::Workload workload, const FootprintArguments& given) {
  if (given.batch_bytes) {
    workload = workload.scaled_to(read_bytes("--batch-bytes", *given.batch_bytes, kMostBatchBytes));
  }
  if (given.activations) {
    workload.activations = read_bytes("--activations", *given.activations, kMostActivations);
  }
  if (given.compute_to_copy) {
    workload.compute_to_copy =
        read_number("--compute-to-copy", *given.compute_to_copy, 0.001, 1000);
    workload.compute_ms.reset();
  }
  if (given.run_ahead) workload.run_ahead = read_run_ahead(*given.run_ahead);
  const std::size_t least = experiment::LoopOptions{}.warm_up + 1;
  if (given.steps) {
    workload.num_batches = read_whole("--steps", *given.steps, least, kMostSteps);
  }
  if (workload.num_batches < least) {
    throw UsageError{
        fmt::format("num_batches of the workload {}: {} {} too few: the first {} are the warm-up",
                    workload.name, workload.num_batches,
                    workload.num_batches == 1 ? "step is" : "steps are", least - 1),
        "--workload", fmt::format("--steps {} or more", least)};
  }
  return workload;
}

}  // namespace

FootprintOptions read_options(const FootprintArguments& arguments) {
  FootprintOptions options;
  options.allocators = read_allocators(arguments.allocators);
  options.methods = read_choices("--copy", "copy strategy", arguments.copies, kCopyMethods);
  options.waits = read_choice("--waits", "wait mode", arguments.waits, kWaits);
  options.wide = arguments.wide;
  options.seed = read_whole("--seed", arguments.seed, 0, std::numeric_limits<std::uint64_t>::max());
  std::vector<std::string> workloads{kSparseDist, kBase};
  if (arguments.workload) workloads = {*arguments.workload};
  for (const std::string& name : workloads) {
    options.workloads.push_back(adapted(read_workload(name), arguments));
  }
  options.device = read_device(arguments.device);
  options.seeds = options.device.modeled ? kModeledSeeds : 1;
  if (arguments.seeds) options.seeds = read_whole("--seeds", *arguments.seeds, 1, 1000);
  return options;
}

std::size_t rows_of(const FootprintOptions& options) noexcept {
  return options.workloads.size() * options.allocators.size() * options.methods.size();
}

void check_one_run(const FootprintOptions& options, const char* option, const char* what) {
  const std::size_t rows = rows_of(options);
  if (rows == 1) return;
  throw UsageError{
      fmt::format("a {} shows one run, but this command runs {} rows", what, rows), option,
      fmt::format("with {}--allocator {} --copy {}, for one",
                  options.workloads.size() == 1
                      ? ""
                      : fmt::format("--workload {} ", options.workloads.front().name),
                  options.allocators.front(), millrace::to_string(options.methods.front()))};
}

}  // namespace millrace::cli
