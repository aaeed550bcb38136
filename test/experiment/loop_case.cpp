#include "test/experiment/loop_case.hpp"

#include <fmt/format.h>

#include <memory>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"
#include "millrace/observe/checked_allocator.hpp"
#include "test/support/schedules.hpp"
#include "test/support/tampered_allocator.hpp"
#include "test/support/tampered_device.hpp"

namespace millrace::test {
namespace {

constexpr std::size_t kMemory = std::size_t{1} << 30;
constexpr std::size_t kSteps = 8;

/**
 * Missing waits of the host show when the host runs far ahead, missing waits of main when it does
 * not.
 */
unsigned run_ahead(std::uint64_t schedule) { return schedule % 2 == 0 ? 20 : 1000; }

/** The machine, the device that leaves out an edge, and a checker that sees all real work. */
struct Machine {
  explicit Machine(const LoopCase& loop)
      : machine(schedule_of(loop.schedule, kMemory)),
        virtual_device(machine.add_device(
            {.memory_bytes = kMemory, .launch_queue_depth = run_ahead(loop.schedule)})) {
    device.leave_out(loop.left_out);
    checking.attach(virtual_device);
    device.on_host_write(
        [this](void* address, std::size_t bytes) { checking.host_writes(address, bytes, "load"); });
  }

  VirtualMachine machine;
  VirtualDevice& virtual_device;
  CheckingObserver checking;
  TamperedDevice device{virtual_device};
  OrderedDevice ordered{device};
  experiment::TimelineClock clock{machine, kMainStream};
};

/** The allocators of a loop, checked where possible. Each part can leave out a use or a free. */
struct Memory {
  Memory(Machine& machine, const LoopCase& loop)
      : source(machine.device),
        pinned_source(machine.device),
        pinned(machine.ordered, pinned_source, Policy::pinned()),
        checked_pinned(pinned, machine.checking, machine.virtual_device, CheckedMemory::pinned),
        host_batches(checked_pinned, "host batch") {
    if (loop.allocator != "driver") {
      const Policy policy = loop.allocator == "torch" ? Policy::torch() : Policy::millrace();
      caching = std::make_unique<CachingAllocator>(machine.ordered, source, policy);
      checked =
          std::make_unique<CheckedAllocator>(*caching, machine.checking, machine.virtual_device);
    }
    if (uses_pool(loop)) pool = std::make_unique<DriverAllocator>(machine.ordered);
    features = std::make_unique<TamperedAllocator>(
        checked ? static_cast<Allocator&>(*checked) : *pool, "features");
    batches = std::make_unique<TamperedAllocator>(pool ? static_cast<Allocator&>(*pool) : *checked,
                                                  "batch");
    for (TamperedAllocator* const part : parts()) part->leave_out(loop.left_out);
  }

  static bool uses_pool(const LoopCase& loop) {
    return uses_driver_pool(loop.allocator, loop.method);
  }
  [[nodiscard]] std::vector<TamperedAllocator*> parts() {
    return {features.get(), batches.get(), &host_batches};
  }

  DeviceSource source;
  PinnedSource pinned_source;
  CachingAllocator pinned;
  CheckedAllocator checked_pinned;
  std::unique_ptr<DriverAllocator> pool;
  std::unique_ptr<CachingAllocator> caching;
  std::unique_ptr<CheckedAllocator> checked;
  std::unique_ptr<TamperedAllocator> features, batches;
  TamperedAllocator host_batches;
};

}  // namespace

std::string LoopCase::name() const {
  std::string options;
  if (shape == PipelineKind::fused_sparse_dist) {
    options =
        fmt::format(" looking up {} on {}", to_string(lookup.position), to_string(lookup.stream));
  } else if (shape == PipelineKind::semi_sync) {
    options = fmt::format(" from step {} on", stale.start_batch);
  }
  return fmt::format("{}, {}, {}{}, {} ranks, {} waits, schedule {}, without: {}", allocator,
                     to_string(method), to_string(shape), options, ranks, to_string(waits),
                     schedule, left_out.empty() ? "nothing" : left_out);
}

LoopOutcome run(const LoopCase& loop) {
  experiment::Workload workload = small_workload(loop.shape);
  workload.world_size = loop.ranks;
  if (loop.change) loop.change(workload);
  static const std::vector<InputShape> batches = experiment::draw_batches(workload, kSteps, 1);
  Machine machine{loop};
  Memory memory{machine, loop};
  LoopOutcome outcome;
  outcome.report = experiment::run_training_loop(workload, batches,
                                                 {.device = machine.ordered,
                                                  .allocator = *memory.features,
                                                  .batches = *memory.batches,
                                                  .pinned = memory.host_batches,
                                                  .clock = machine.clock},
                                                 {.method = loop.method,
                                                  .waits = loop.waits,
                                                  .warm_up = 1,
                                                  .lookup = loop.lookup,
                                                  .stale = loop.stale,
                                                  .savers = loop.savers});
  for (const auto& [edge, times] : machine.device.edges()) outcome.edges.insert(edge);
  for (const TamperedAllocator* const part : memory.parts()) {
    for (const auto& [edge, times] : part->reports()) outcome.edges.insert(edge);
  }
  outcome.checked = machine.device.checked();
  outcome.corrupted = machine.device.corrupted();
  for (const RaceChecker::Race& race : machine.checking.races()) {
    outcome.races.push_back(race.message);
  }
  return outcome;
}

experiment::Workload small_workload(PipelineKind shape) {
  experiment::Workload workload;
  workload.shape = shape;
  workload.batch_size = 8;
  workload.world_size = 2;
  workload.num_float_features = 2;
  workload.num_unweighted_features = 2;
  workload.num_weighted_features = 1;
  workload.feature_pooling_avg = 3;
  workload.feature_pooling_std = 1;
  workload.feature_pooling_variation = 0.2;
  workload.base_row_size = 10;
  workload.embedding_feature_dim = 1;
  workload.activations = std::size_t{8} << 10;
  workload.layers = 1;  // more layers have megabytes of parameters
  workload.compute_to_copy = 2;
  workload.run_ahead = 1;  // has no effect: the device is made here
  return workload;
}

}  // namespace millrace::test
