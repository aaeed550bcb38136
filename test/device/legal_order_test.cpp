#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/virtual/random.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/seed.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using simulation::Random;
using test::Timeline;

namespace {

/// A random program on one device. Records which operation must end before which other one begins,
/// by CUDA's rules. The index of an operation in host order identifies it.
class RandomProgram {
 public:
  RandomProgram(VirtualDevice& device, std::uint64_t seed) : device_(device), random_(seed) {
    memory_ = device_.allocate(1 << 20);
    pinned_ = device_.allocate_host(1 << 20);
    streams_.push_back({device_.legacy_stream(), true, true, {}});
    for (int i = 0; i < 5; ++i) {
      StreamOptions options;
      options.blocking = random_.chance(1, 2);
      options.priority = -static_cast<int>(random_.below(2));
      streams_.push_back({device_.create_stream(options), options.blocking, false, {}});
    }
    for (int i = 0; i < 4; ++i) events_.push_back({device_.create_event(), {}});
  }

  void run(int calls) {
    for (int i = 0; i < calls; ++i) step();
    device_.synchronize();
  }

  [[nodiscard]] const std::set<std::pair<std::uint64_t, std::uint64_t>>& edges() const {
    return edges_;
  }
  [[nodiscard]] std::uint64_t operations() const { return next_; }

 private:
  using Index = std::optional<std::uint64_t>;

  struct KnownStream {
    StreamHandle handle;
    bool blocking;
    bool legacy;
    Index last;
  };
  struct KnownEvent {
    EventHandle handle;
    Index recorded;
  };

  void before(Index first, std::uint64_t second) {
    if (first) edges_.emplace(*first, second);
  }

  std::uint64_t enqueued(KnownStream& stream) {
    const std::uint64_t index = next_++;
    before(stream.last, index);
    for (const KnownStream& other : streams_) {
      if (stream.legacy ? other.blocking : (stream.blocking && other.legacy)) {
        before(other.last, index);
      }
    }
    stream.last = index;
    return index;
  }

  void step() {
    KnownStream& stream = streams_[random_.below(streams_.size())];
    KnownEvent& event = events_[random_.below(events_.size())];
    switch (random_.below(8)) {
      case 0:
      case 1:
        device_.record(event.handle, stream.handle);
        event.recorded = enqueued(stream);
        return;
      case 2:
      case 3:
        device_.wait(stream.handle, event.handle);
        if (event.recorded) before(event.recorded, enqueued(stream));
        return;
      case 4:
        device_.copy(memory_, pinned_, 1 + random_.below(1 << 20), CopyKind::host_to_device,
                     stream.handle);
        enqueued(stream);
        return;
      case 5:
        if (random_.chance(1, 4)) (void)device_.query(event.handle);
        if (random_.chance(1, 8)) device_.synchronize(stream.handle);
        return;
      case 6:
        device_.callback(stream.handle, [] {});
        enqueued(stream);
        return;
      default: {
        Operation kernel;
        kernel.name = "kernel";
        kernel.cost.flops = static_cast<double>(random_.below(1'000'000'000));
        kernel.cost.bytes = static_cast<double>(random_.below(100'000'000));
        device_.launch(kernel, stream.handle);
        enqueued(stream);
      }
    }
  }

  VirtualDevice& device_;
  Random random_;
  void* memory_;
  void* pinned_;
  std::vector<KnownStream> streams_;
  std::vector<KnownEvent> events_;
  std::uint64_t next_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> edges_;
};

VirtualMachine::Options schedule(bool adversarial, std::uint64_t seed) {
  VirtualMachine::Options options;
  if (adversarial) options.schedule = VirtualMachine::Schedule::adversarial;
  options.seed = seed;
  return options;
}

}  // namespace

TEST_CASE("every schedule keeps the order of streams, events and the legacy stream") {
  const bool adversarial = GENERATE(false, true);
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::uint64_t seed = test::seed() * 1000 + i;
    VirtualMachine machine{schedule(adversarial, seed)};
    VirtualDevice::Options options;
    options.data = false;
    options.launch_queue_depth = 1 + static_cast<unsigned>(Random{seed}.below(60));
    VirtualDevice& device = machine.add_device(options);
    const Timeline timeline{machine};
    RandomProgram program{device, seed};
    program.run(200);

    REQUIRE(timeline.entries().size() == program.operations());
    std::map<std::uint64_t, const Timeline::Entry*> ran;
    for (const auto& entry : timeline.entries()) ran[entry.index] = &entry;
    std::uint64_t broken = 0;
    for (const auto& [first, second] : program.edges()) {
      if (ran.at(second)->begin < ran.at(first)->end) ++broken;
    }
    INFO("seed " << seed);
    CHECK(broken == 0);
  }
}

TEST_CASE("the adversarial schedule produces most of the orders that no edge forbids") {
  // Without an edge, the operations of either stream run first under some seed.
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    VirtualMachine machine{schedule(true, seed)};
    VirtualDevice& device = machine.add_device(test::plain_options());
    const Timeline timeline{machine};
    const StreamHandle streams[] = {device.create_stream(), device.create_stream()};
    for (const char* name : {"a", "b"}) {
      device.launch(test::fixed_kernel(name, 1ns), streams[0]);
    }
    for (const char* name : {"c", "d"}) {
      device.launch(test::fixed_kernel(name, 1ns), streams[1]);
    }
    device.synchronize();
    std::string order;
    for (const auto& name : timeline.order()) order += name;
    orders.insert(order);
  }
  CHECK(orders.contains("abcd"));
  CHECK(orders.contains("cdab"));
  CHECK(orders.size() >= 4);  // of six possible orders
}

TEST_CASE("kernels never exceed the capacity of the machine, and never run faster than alone") {
  for (std::uint64_t i = 0; i < 30; ++i) {
    Random random{test::seed() * 1000 + i};
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device(test::plain_options());
    const Timeline timeline{machine};
    std::map<std::string, Operation> kernels;
    double flops = 0;
    double bytes = 0;
    for (int k = 0; k < 12; ++k) {
      StreamOptions options;
      options.priority = -static_cast<int>(random.below(2));
      const StreamHandle stream = device.create_stream(options);
      Operation kernel;
      kernel.name = "k" + std::to_string(k);
      kernel.cost.flops = static_cast<double>(random.below(1000));
      kernel.cost.bytes = static_cast<double>(random.below(3000));
      kernel.cost.fixed = Nanoseconds{random.below(300)};
      device.launch(test::fixed_kernel("delay", Nanoseconds{random.below(2000)}), stream);
      device.launch(kernel, stream);
      flops += kernel.cost.flops;
      bytes += kernel.cost.bytes;
      kernels[kernel.name] = kernel;
    }
    device.synchronize();
    for (const auto& [name, kernel] : kernels) {
      const auto& entry = timeline.at(name);
      const double alone = static_cast<double>(kernel.cost.fixed.count()) +
                           std::max(kernel.cost.flops, kernel.cost.bytes / 2);
      CHECK(static_cast<double>((entry.end - entry.begin).count()) >= alone);
    }
    const auto busy = static_cast<double>(device.busy(Engine::compute).count());
    CHECK(busy >= flops);
    CHECK(busy >= bytes / 2);
  }
}
