#include "millrace/experiment/pipeline_comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/device/checking.hpp"
#include "millrace/pipeline/collective/run_ranks.hpp"
#include "millrace/pipeline/schedule/run_device.hpp"
#include "millrace/pipeline/schedule/run_memory.hpp"
#include "millrace/pipeline/schedule/run_timeline.hpp"
#include "pipelines/bound.hpp"
#include "pipelines/compared_rank.hpp"

namespace millrace::experiment {
namespace {

constexpr std::string_view kVirtual = "virtual:";

DeviceProfile profile_of(const std::string& device) {
  static_cast<void>(find_device(device));  // throws for an unknown device
  if (!device.starts_with(kVirtual)) {
    throw std::invalid_argument{
        fmt::format("pipelines are compared on virtual devices, and {} is none", device)};
  }
  return DeviceProfile::named(device.substr(kVirtual.size()));
}

std::vector<VirtualDevice*> add_devices(VirtualMachine& machine, const DeviceProfile& profile,
                                        const Workload& workload) {
  std::vector<VirtualDevice*> devices;
  for (std::size_t rank = 0; rank < workload.world_size; ++rank) {
    VirtualDevice::Options options;
    options.profile = profile;
    options.data = false;
    if (workload.run_ahead > 0) options.launch_queue_depth = workload.run_ahead;
    devices.push_back(&machine.add_device(options));
  }
  return devices;
}

LinkModel link_of(const DeviceProfile& profile, const Workload& workload) {
  return {.latency = Nanoseconds{static_cast<Nanoseconds::rep>(workload.exchange_latency_us * 1e3)},
          .bytes_per_second = workload.exchange_gb_per_s ? *workload.exchange_gb_per_s * 1e9
                                                         : profile.peer_to_peer};
}

RunNotes notes_of(const PipelineCell& cell) {
  return {.device = cell.device,
          .allocator = cell.allocator,
          .copy = cell.options.copy,
          .more = {{"waits", std::string{to_string(cell.options.waits)}},
                   {"pipeline", std::string{to_string(cell.pipeline)}}}};
}

/** Assigns tables to the ranks in turn, so that each rank has about equally many of each kind. */
ShardingPlan spread(const SparseNNConfig& model, unsigned ranks) {
  ShardingPlan plan{.ranks = ranks, .tables = {}, .weighted_tables = {}};
  unsigned next = 0;
  for (std::size_t i = 0; i < model.tables.size(); ++i) {
    plan.tables.push_back({.rank = next++ % ranks});
  }
  for (std::size_t i = 0; i < model.weighted_tables.size(); ++i) {
    plan.weighted_tables.push_back({.rank = next++ % ranks});
  }
  return plan;
}

}  // namespace

PipelineRun run_pipeline(const PipelineCell& cell, const Workload& workload, std::uint64_t seed,
                         Timeline* timeline) {
  const DeviceProfile profile = profile_of(cell.device);
  SparseNNConfig model = workload.model_config(seed);
  model.table_cache = cell.table_cache;
  const auto count = static_cast<unsigned>(workload.world_size);
  const ShardingPlan plan = spread(model, count);

  VirtualMachine machine;
  const std::vector<VirtualDevice*> devices = add_devices(machine, profile, workload);
  OperationLog log{machine};
  const RunTimeline recorded{timeline, notes_of(cell), &machine,
                             std::vector<Device*>{devices.begin(), devices.end()}};
  CheckingObserver checking;
  for (VirtualDevice* const device : devices) checking.attach(*device);
  checking.attach(machine.executor());
  ThreadRanks ranks{count, machine, {.link = link_of(profile, workload), .cost_only = true}};
  const ComparedRun run{cell, workload, model, plan, machine, ranks, checking};

  std::vector<std::vector<InputShape>> batches;
  for (unsigned rank = 0; rank < count; ++rank) {
    batches.push_back(draw_batches(workload, workload.num_batches, seed * count + rank));
  }
  std::vector<RankReport> reports(count);
  run_ranks(machine.executor(), count, [&](unsigned rank) {
    reports[rank] = run_rank(run, rank, *devices[rank], batches[rank]);
  });

  const auto reserved = [](const RankReport& report) { return report.memory.reserved.peak; };
  const auto most = std::ranges::max_element(reports, {}, reserved);
  const TimeSpan loop{std::ranges::min(reports, {}, &RankReport::begin).begin,
                      std::ranges::max(reports, {}, &RankReport::end).end};
  const std::vector<LoggedOperation> operations = log.since(loop.begin);
  PipelineRun result;
  result.runtime = loop.end - loop.begin;
  result.bound = bound_of(operations, profile);
  result.rank = static_cast<unsigned>(most - reports.begin());
  result.memory = most->memory;
  result.ladder = most->ladder;
  result.stranded_peak = most->stranded_peak;
  result.streams = most->streams;
  result.engines = engine_times(operations, result.rank, loop);
  for (const LoggedOperation& operation : operations) {
    result.operations.push_back({operation.name, operation.stream, operation.device,
                                 operation.engine, operation.begin - loop.begin,
                                 operation.end - loop.begin});
  }
  result.races = race_messages(checking);
  return result;
}

}  // namespace millrace::experiment
