// Operations per second that the virtual device simulates in real time. They determine the cost of
// a footprint experiment, whose loops enqueue some hundred operations per step.
#include <benchmark/benchmark.h>

#include <vector>

#include "millrace/device/virtual_machine.hpp"

namespace {

using namespace millrace;

VirtualDevice::Options options(bool data) {
  VirtualDevice::Options given;
  given.data = data;
  return given;
}

Operation kernel() {
  Operation operation;
  operation.name = "kernel";
  operation.cost.flops = 1e9;
  operation.cost.bytes = 1e7;
  return operation;
}

VirtualMachine::Options schedule(std::int64_t adversarial) {
  VirtualMachine::Options given;
  if (adversarial != 0) given.schedule = VirtualMachine::Schedule::adversarial;
  return given;
}

// One stream with kernels only: the lowest cost of an operation.
void launches(benchmark::State& state) {
  VirtualMachine machine{schedule(state.range(0))};
  VirtualDevice& device = machine.add_device(options(false));
  const StreamHandle stream = device.create_stream();
  for (auto _ : state) device.launch(kernel(), stream);
  device.synchronize();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(launches)->Arg(0)->Arg(1)->ArgName("adversarial");

// The operations of a training loop: copy, event, wait, three kernels, event, wait, free.
void steps(benchmark::State& state) {
  VirtualMachine machine{schedule(state.range(0))};
  VirtualDevice& device = machine.add_device(options(false));
  const StreamHandle copy = device.create_stream();
  const StreamHandle compute = device.create_stream();
  const EventHandle copied = device.create_event();
  const EventHandle used = device.create_event();
  void* const memory = device.allocate(1 << 20);
  void* const pinned = device.allocate_host(1 << 20);
  for (auto _ : state) {
    device.wait(copy, used);
    device.copy(memory, pinned, 1 << 20, CopyKind::host_to_device, copy);
    device.record(copied, copy);
    device.wait(compute, copied);
    for (int i = 0; i < 3; ++i) device.launch(kernel(), compute);
    device.record(used, compute);
  }
  device.synchronize();
  state.SetItemsProcessed(state.iterations() * 8);
}
BENCHMARK(steps)->Arg(0)->Arg(1)->ArgName("adversarial");

// Concurrent kernels of several streams. Each start and each end redistributes the machine.
void concurrent(benchmark::State& state) {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(options(false));
  std::vector<StreamHandle> streams;
  for (std::int64_t i = 0; i < state.range(0); ++i) streams.push_back(device.create_stream());
  std::size_t next = 0;
  for (auto _ : state) device.launch(kernel(), streams[next++ % streams.size()]);
  device.synchronize();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(concurrent)->Arg(4)->Arg(32)->ArgName("streams");

// Two actors whose clocks interleave. The turn passes at nearly every call.
void two_actors(benchmark::State& state) {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(options(false));
  const StreamHandle one = device.create_stream();
  const StreamHandle two = device.create_stream();
  bool stop = false;
  const auto other = machine.executor().spawn("other", [&] {
    while (!stop) device.launch(kernel(), two);
  });
  for (auto _ : state) device.launch(kernel(), one);
  stop = true;
  other->join();
  device.synchronize();
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(two_actors);

}  // namespace
