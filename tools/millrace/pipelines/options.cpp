#include "pipelines/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "cli/choices.hpp"
#include "cli/error.hpp"
#include "cli/run_options.hpp"
#include "cli/without_effect.hpp"
#include "millrace/text/units.hpp"

namespace millrace::cli {
namespace {

constexpr std::uint64_t kMostRanks = 64;

experiment::Workload read_workload_with_model(const std::string& text) {
  const std::vector<std::string> known = workloads_with_models();
  if (std::ranges::find(known, text) != known.end()) return experiment::Workload::named(text);
  const bool file = std::filesystem::exists(text) || text.find('/') != std::string::npos ||
                    text.ends_with(".json");
  if (!file) static_cast<void>(read_name("--workload", "workload with a model", text, known));
  const std::string right =
      fmt::format("a JSON file with a \"model\", as docs/workloads.md says, or one of {}",
                  fmt::join(known, ", "));
  try {
    const experiment::Workload workload = experiment::Workload::load(text);
    if (!workload.model) {
      throw UsageError{fmt::format("{} has no model, which `millrace pipelines` needs", text),
                       "--workload", right};
    }
    return workload;
  } catch (const std::invalid_argument& error) {
    throw UsageError{error.what(), "--workload", right};
  }
}

std::uint64_t read_steps(const std::string& text) {
  if (text.ends_with(".svg")) {
    throw UsageError{fmt::format("'{}' is a file, not a number of steps", text), "--steps",
                     fmt::format("--steps-svg {}, to draw two steps", text)};
  }
  return read_whole("--steps", text, 1, kMostSteps);
}

experiment::Workload adapted(experiment::Workload workload, const PipelinesArguments& given) {
  if (given.ranks) workload.world_size = read_whole("--ranks", *given.ranks, 1, kMostRanks);
  if (given.steps) workload.num_batches = read_steps(*given.steps);
  if (given.batch_size) {
    workload.batch_size = read_whole("--batch-size", *given.batch_size, 1, std::size_t{1} << 27);
  }
  if (given.run_ahead) workload.run_ahead = read_run_ahead(*given.run_ahead);
  if (given.link_gb_per_s) {
    workload.exchange_gb_per_s = read_number("--link-gb-per-s", *given.link_gb_per_s, 0.001, 1e6);
  }
  return workload;
}

DeviceDescription read_virtual_device(const std::string& name) {
  std::vector<std::string> known;
  for (const std::string& profile : DeviceProfile::names()) known.push_back("virtual:" + profile);
  return find_device(read_name("--device", "virtual device", name, known));
}

std::vector<PipelineKind> read_pipelines(const PipelinesArguments& arguments) {
  auto pipelines = read_choices("--pipeline", "pipeline", arguments.pipelines, kPipelineKinds);
  if (!arguments.forward_only) return pipelines;
  const auto trains = [](PipelineKind kind) { return traits_of(kind).evaluated_by.has_value(); };
  const auto found = std::ranges::find_if(pipelines, trains);
  if (found != pipelines.end() && pipelines.size() != kPipelineKinds.size()) {
    throw UsageError{fmt::format("{} is for training: without updates no lookup is stale",
                                 millrace::to_string(*found)),
                     "--forward-only", "another pipeline"};
  }
  std::erase_if(pipelines, trains);
  return pipelines;
}

void refuse_idle(const PipelinesArguments& given, const std::vector<PipelineKind>& pipelines) {
  constexpr auto trait = &PipelineTraits::lookup_options;
  refuse_without_trait(trait, pipelines, "--lookup-position", given.lookup_positions.has_value());
  refuse_without_trait(trait, pipelines, "--lookup-stream", given.lookup_streams.has_value());
  refuse_without_effect("--optimizer-work", given.forward_only && given.optimizer_work,
                        "nothing is updated", "without --forward-only");
}

std::vector<double> read_works(const std::string& text) {
  std::vector<double> works;
  std::istringstream rest{text};
  for (std::string one; std::getline(rest, one, ',');) {
    works.push_back(read_number("--optimizer-work", one, 1, 1e6));
  }
  if (works.empty()) works.push_back(read_number("--optimizer-work", text, 1, 1e6));
  return works;
}

/** All combinations of lookup position and lookup stream, if the pipeline has these options. */
std::vector<LookupOptions> lookups_of(PipelineKind pipeline,
                                      const std::vector<LookupPosition>& positions,
                                      const std::vector<LookupStream>& streams) {
  if (!traits_of(pipeline).lookup_options) return {LookupOptions{}};
  std::vector<LookupOptions> lookups;
  for (const LookupStream stream : streams) {
    for (const LookupPosition position : positions) lookups.push_back({position, stream, false});
  }
  return lookups;
}

/** The bandwidth between ranks in GB/s. The workload's value replaces the device's. */
double link_of(const experiment::Workload& workload, const DeviceDescription& device) {
  if (workload.exchange_gb_per_s) return *workload.exchange_gb_per_s;
  const std::string profile = device.name.substr(device.name.find(':') + 1);
  return in_gb(DeviceProfile::named(profile).peer_to_peer);
}

}  // namespace

std::vector<std::string> workloads_with_models() {
  std::vector<std::string> names;
  for (const std::string& name : experiment::Workload::names()) {
    if (experiment::Workload::named(name).model) names.push_back(name);
  }
  return names;
}

std::string title_of(const experiment::PipelineCell& cell) {
  std::string title{millrace::to_string(cell.pipeline)};
  if (traits_of(cell.pipeline).lookup_options) {
    const LookupOptions standard, &chosen = cell.options.lookup;
    if (chosen.position != standard.position) {
      title += fmt::format(", lookup {}", millrace::to_string(chosen.position));
    }
    if (chosen.stream != standard.stream) {
      title += fmt::format(", lookup stream {}", millrace::to_string(chosen.stream));
    }
  }
  if (cell.forward_only) title += ", forward only";
  if (cell.optimizer_work != 1) title += fmt::format(", optimizer x {:g}", cell.optimizer_work);
  return title;
}

PipelinesOptions read_options(const PipelinesArguments& arguments) {
  PipelinesOptions options;
  options.workload = adapted(read_workload_with_model(arguments.workload), arguments);
  options.wide = arguments.wide;
  options.device = read_virtual_device(arguments.device);
  options.link_gb_per_s = link_of(options.workload, options.device);
  options.cache = read_cache({arguments.cache_load_factor, arguments.cache_policy}, false);
  options.seed = read_whole("--seed", arguments.seed, 0, std::numeric_limits<std::uint32_t>::max());
  options.seeds = read_whole("--seeds", arguments.seeds, 1, 1000);
  const std::vector<PipelineKind> pipelines = read_pipelines(arguments);
  const auto copies = read_choices("--copy", "copy strategy", arguments.copies, kCopyMethods);
  const auto waits = read_choices("--waits", "wait mode", arguments.waits, kWaits);
  const std::vector<std::string> allocators = read_allocators(arguments.allocators);
  refuse_idle(arguments, pipelines);
  const auto positions =
      read_choices("--lookup-position", "lookup position",
                   arguments.lookup_positions.value_or("after-optimizer"), kLookupPositions);
  const auto streams = read_choices("--lookup-stream", "lookup stream",
                                    arguments.lookup_streams.value_or("data-dist"), kLookupStreams);

  const auto add_memory = [&](const experiment::PipelineCell& of) {
    for (const std::string& allocator : allocators) {
      for (const Waits wait : waits) {
        for (const CopyMethod copy : copies) {
          experiment::PipelineCell& cell = options.cells.emplace_back(of);
          cell.allocator = allocator;
          cell.options.copy = copy;
          cell.table_cache = options.cache;
          cell.options.waits = wait;
        }
      }
    }
  };
  experiment::PipelineCell cell;
  cell.device = options.device.name;
  cell.forward_only = arguments.forward_only;
  cell.options.stale.start_batch = 0;  // semi-sync starts with the first batch
  for (const double work : read_works(arguments.optimizer_work.value_or("1"))) {
    cell.optimizer_work = work;
    for (const PipelineKind pipeline : pipelines) {
      cell.pipeline = pipeline;
      for (const LookupOptions& lookup : lookups_of(pipeline, positions, streams)) {
        cell.options.lookup = lookup;
        add_memory(cell);
      }
    }
  }
  return options;
}

}  // namespace millrace::cli
