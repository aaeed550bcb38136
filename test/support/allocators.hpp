#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_device.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/memory/driver_allocator.hpp"

namespace millrace::test {

/// Whether the device of a bench has memory for kernels. A test that only counts steps, times or
/// addresses needs none. With AddressSanitizer, each allocated GiB costs seconds: 128 MiB of shadow
/// memory are written for it.
enum class BenchData { real, none };

/// A virtual machine with one small device, and two attached streams on it.
struct Bench {
  explicit Bench(std::size_t memory = std::size_t{1} << 30,
                 VirtualMachine::Options options = VirtualMachine::Options{},
                 BenchData data = BenchData::real)
      : machine(options),
        device(machine.add_device({.memory_bytes = memory, .data = data == BenchData::real})),
        ordered(device),
        main(ordered, {.name = "main"}),
        copy(ordered, {.name = "copy"}) {}

  VirtualMachine machine;
  VirtualDevice& device;
  OrderedDevice ordered;
  Stream main;
  Stream copy;
  DeviceSource source{device};
  PinnedSource pinned{device};
};

/// A bench with an allocator of the `millrace` preset.
struct CachingBench : Bench {
  using Bench::Bench;
  CachingAllocator allocator{ordered, source, Policy::millrace()};

  [[nodiscard]] std::size_t reserved() {
    allocator.check_invariants();
    return allocator.statistics().bytes.reserved.current;
  }
};

/// Launches 5 ms of work on `stream` that reads and writes all of the memory.
inline void busy(Bench& bench, const Stream& stream, void* address, std::size_t bytes) {
  bench.device.launch({.name = "work",
                       .views = {{address, bytes, Access::read_write}},
                       .cost = {.fixed = std::chrono::milliseconds{5}},
                       .host = {},
                       .cuda = {}},
                      stream.handle());
}

/// Returns the policy with segments as large as requests over 1 MiB. Every miss then shows as
/// growth.
[[nodiscard]] inline Policy exact_segments(Policy policy) {
  policy.large_segment_least = policy.large_segment_most = 0;
  policy.growable_ranges = false;
  policy.medium_limit = 0;
  return policy;
}

/// One way to make an Allocator. The conformance suite runs over each.
struct AllocatorFactory {
  std::string name;
  std::function<std::unique_ptr<Allocator>(Bench&)> make;
};

inline const std::vector<AllocatorFactory>& allocator_factories() {
  const auto caching = [](const Policy& policy) {
    return [policy](Bench& bench) -> std::unique_ptr<Allocator> {
      return std::make_unique<CachingAllocator>(bench.ordered, bench.source, policy);
    };
  };
  static const std::vector<AllocatorFactory> factories{
      {"torch", caching(Policy::torch())},
      {"torch-expandable", caching(Policy::torch_expandable())},
      {"millrace", caching(Policy::millrace())},
      {"pinned",
       [](Bench& bench) -> std::unique_ptr<Allocator> {
         return std::make_unique<CachingAllocator>(bench.ordered, bench.pinned, Policy::pinned());
       }},
      {"driver", [](Bench& bench) -> std::unique_ptr<Allocator> {
         return std::make_unique<DriverAllocator>(bench.ordered);
       }}};
  return factories;
}

}  // namespace millrace::test
