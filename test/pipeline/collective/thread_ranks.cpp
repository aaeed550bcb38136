#include <array>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/checking.hpp"
#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using namespace std::chrono_literals;

/// Ranks of one machine, each with a device, a stream and a group. One thread drives all ranks,
/// which works as long as no operation blocks the host.
struct Ranks {
  explicit Ranks(unsigned count, const ThreadRanks::Options& options = {},
                 const VirtualDevice::Options& device = plain_options())
      : ranks(count, machine, options) {
    for (unsigned rank = 0; rank < count; ++rank) {
      devices.push_back(&machine.add_device(device));
      ordered.push_back(std::make_unique<OrderedDevice>(*devices.back()));
      streams.push_back(std::make_unique<Stream>(*ordered.back()));
      groups.push_back(ranks.join(rank, *ordered.back()));
    }
  }

  void all_to_all(unsigned rank, std::size_t bytes) {
    std::vector<SentBytes> sends(ranks.size(), {nullptr, bytes});
    std::vector<ReceivedBytes> receives(ranks.size(), {nullptr, bytes});
    for (unsigned peer = 0; peer < ranks.size(); ++peer) {
      sends[peer].data = devices[rank]->allocate(bytes);
      receives[peer].data = devices[rank]->allocate(bytes);
    }
    groups[rank]->all_to_all(sends, receives, *streams[rank]);
  }

  VirtualMachine machine;
  ThreadRanks ranks;
  std::vector<VirtualDevice*> devices;
  std::vector<std::unique_ptr<OrderedDevice>> ordered;
  std::vector<std::unique_ptr<Stream>> streams;
  std::vector<std::unique_ptr<ProcessGroup>> groups;
};

ThreadRanks::Options linked(double bytes_per_second) {
  return {.link = {.latency = 100ns, .bytes_per_second = bytes_per_second}};
}

}  // namespace

TEST_CASE("an all-to-all takes the link's latency plus the time of the bytes for other ranks") {
  Ranks ranks{4, linked(0.1e9)};  // 10 ns per byte; memory takes 1 ns
  for (unsigned rank = 0; rank < 4; ++rank) ranks.all_to_all(rank, 1000);
  const Nanoseconds start = ranks.machine.now();
  ranks.streams[0]->synchronize();
  CHECK(ranks.machine.now() - start == 100ns + 3 * 10'000ns);
  CHECK(ranks.devices[3]->busy(Engine::link) == 100ns + 3 * 10'000ns);
}

TEST_CASE("an all-reduce takes the time of a ring, a broadcast the time of its bytes") {
  Ranks ranks{4, linked(0.1e9)};
  std::array<float*, 4> data{};
  for (unsigned rank = 0; rank < 4; ++rank) {
    data[rank] = static_cast<float*>(ranks.devices[rank]->allocate(4000));
    ranks.groups[rank]->all_reduce_sum(data[rank], 1000, *ranks.streams[rank]);
  }
  ranks.streams[0]->synchronize();
  const Nanoseconds reduced = ranks.devices[0]->busy(Engine::link);
  CHECK(reduced == 100ns + 60'000ns);  // 2 * 3/4 of 4000 bytes
  for (unsigned rank = 0; rank < 4; ++rank) {
    ranks.groups[rank]->broadcast(data[rank], 4000, 2, *ranks.streams[rank]);
  }
  ranks.streams[0]->synchronize();
  CHECK(ranks.devices[0]->busy(Engine::link) - reduced == 100ns + 40'000ns);
}

TEST_CASE("an exchange on the device does not block the host of an early rank") {
  Ranks ranks{2};
  ranks.all_to_all(0, 64);
  ranks.all_to_all(0, 64);
  CHECK(ranks.devices[0]->pending() == 2);
  ranks.all_to_all(1, 64);
  ranks.all_to_all(1, 64);
  ranks.streams[0]->synchronize();
  CHECK(ranks.devices[0]->pending() == 0);
}

TEST_CASE("a cost-only collective takes time on devices without data") {
  VirtualDevice::Options device = plain_options();
  device.data = false;
  Ranks ranks{2, {.cost_only = true}, device};
  for (unsigned rank = 0; rank < 2; ++rank) ranks.all_to_all(rank, std::size_t{1} << 26);
  ranks.streams[1]->synchronize();
  CHECK(ranks.devices[1]->busy(Engine::link) > 0ns);
}

TEST_CASE("no rank passes a barrier before all ranks have reached it") {
  VirtualMachine machine;
  ThreadRanks ranks{3, machine};
  std::vector<std::unique_ptr<OrderedDevice>> devices;
  for (int i = 0; i < 3; ++i) {
    devices.push_back(std::make_unique<OrderedDevice>(machine.add_device(plain_options())));
  }
  unsigned here = 0;
  bool early = false;
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  for (unsigned rank = 0; rank < 3; ++rank) {
    tasks.push_back(machine.executor().spawn("rank", [&, rank] {
      const auto group = ranks.join(rank, *devices[rank]);
      machine.executor().spend(rank * 1us);
      ++here;
      group->barrier();
      early = early || here < 3;
    }));
  }
  for (const auto& task : tasks) task->join();
  CHECK_FALSE(early);
}

TEST_CASE("a barrier that one rank never reaches is reported as a deadlock") {
  Ranks ranks{2};
  CHECK_THROWS_AS(ranks.groups[0]->barrier(), Deadlock);
}

TEST_CASE("a rank that joins twice or has a number out of range is refused") {
  Ranks ranks{2};
  CHECK_THROWS_AS(ranks.ranks.join(0, *ranks.ordered[0]), std::invalid_argument);
  CHECK_THROWS_AS(ranks.ranks.join(2, *ranks.ordered[0]), std::invalid_argument);
}

TEST_CASE("an exchange orders accesses to memory that ranks share, as the race checker sees") {
  const bool exchanges = GENERATE(true, false);
  Ranks ranks{2};
  CheckingObserver checker;
  for (VirtualDevice* const device : ranks.devices) checker.attach(*device);
  void* const shared = ranks.devices[0]->allocate_host(64);
  const auto write = [&](unsigned rank) {
    Operation operation = fixed_kernel("write", 10ns);
    operation.views = {{shared, 64, Access::write}};
    ranks.devices[rank]->launch(std::move(operation), ranks.streams[rank]->handle());
  };
  write(0);
  for (unsigned rank = 0; exchanges && rank < 2; ++rank) ranks.all_to_all(rank, 64);
  write(1);
  ranks.streams[1]->synchronize();
  CHECK(checker.races().size() == (exchanges ? 0 : 1));
}

}  // namespace millrace::test
