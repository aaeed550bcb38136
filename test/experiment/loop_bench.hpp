#pragma once

#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/experiment/training_loop.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "test/experiment/loop_case.hpp"

namespace millrace::test {

/// A small training loop without data, with its device and its allocator.
struct LoopBench {
  explicit LoopBench(std::size_t memory_bytes = std::size_t{1} << 30,
                     const Policy& policy = Policy::millrace())
      : device(machine.add_device({.memory_bytes = memory_bytes, .data = false})),
        memory(ordered, source, policy) {}

  experiment::LoopReport run(const experiment::Workload& workload, experiment::LoopClock& clock,
                             const experiment::LoopOptions& options = {}) {
    const std::vector<InputShape> batches = experiment::draw_batches(workload, 10, 1);
    return experiment::run_training_loop(workload, batches,
                                         {.device = ordered,
                                          .allocator = memory,
                                          .batches = memory,
                                          .pinned = pinned,
                                          .clock = clock},
                                         options);
  }

  VirtualMachine machine;
  VirtualDevice& device;
  OrderedDevice ordered{device};
  DeviceSource source{device};
  PinnedSource pinned_source{device};
  CachingAllocator memory;
  CachingAllocator pinned{ordered, pinned_source, Policy::pinned()};
};

}  // namespace millrace::test
