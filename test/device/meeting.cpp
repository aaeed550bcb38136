#include "millrace/device/meeting.hpp"

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "millrace/device/checking.hpp"
#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/schedules.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::fixed_kernel;
using test::plain_options;
using test::schedule_of;
using test::Timeline;

namespace {

constexpr std::size_t kBytes = 64;

/** Two devices of one machine, a stream and a piece of memory on each. */
struct Pair {
  explicit Pair(const VirtualMachine::Options& options = VirtualMachine::Options{})
      : machine(options) {
    for (std::size_t i = 0; i < 2; ++i) {
      devices[i] = &machine.add_device(plain_options());
      streams[i] = devices[i]->create_stream({.name = i == 0 ? "s0" : "s1"});
      memory[i] = devices[i]->allocate(kBytes);
    }
  }

  std::shared_ptr<Meeting> meeting(Meeting::Effect effect = nullptr, unsigned parties = 2) {
    return machine.make_meeting(parties, std::move(effect));
  }

  void launch(Operation operation, std::size_t on) {
    devices[on]->launch(std::move(operation), streams[on]);
  }

  void join(const std::shared_ptr<Meeting>& meeting, unsigned party, Nanoseconds time = 10ns,
            Access access = Access::read_write) {
    Operation part = fixed_kernel("part " + std::to_string(party), time);
    part.views = {{memory[party], kBytes, access}};
    part.meeting = meeting;
    part.party = party;
    launch(std::move(part), party);
  }

  /// Fills the memory of device 0 with 7 and of device 1 with 9. A meeting swaps the two.
  std::shared_ptr<Meeting> swap();

  std::byte value(std::size_t on) {
    std::byte read{};
    devices[on]->copy(&read, memory[on], 1, CopyKind::device_to_host, streams[on]);
    return read;
  }

  VirtualMachine machine;
  std::array<VirtualDevice*, 2> devices{};
  std::array<StreamHandle, 2> streams{};
  std::array<void*, 2> memory{};
};

void swap_values(std::span<const KernelContext> parties) {
  std::swap_ranges(parties[0].bytes(0).begin(), parties[0].bytes(0).end(),
                   parties[1].bytes(0).begin());
}

std::shared_ptr<Meeting> Pair::swap() {
  devices[0]->fill(memory[0], 7, kBytes, streams[0]);
  devices[1]->fill(memory[1], 9, kBytes, streams[1]);
  return meeting(swap_values);
}

}  // namespace

TEST_CASE("no part of a meeting begins before all parts are at the head of their streams") {
  Pair pair;
  Timeline timeline{pair.machine};
  const auto meeting = pair.meeting();
  pair.join(meeting, 0);
  pair.launch(fixed_kernel("first", 100ns), 1);
  pair.join(meeting, 1);
  pair.devices[0]->synchronize();
  CHECK(timeline.at("part 0").begin == 100ns);
  CHECK(timeline.at("part 1").begin == 100ns);
}

TEST_CASE("all parts of a meeting end together, after the longest") {
  Pair pair;
  Timeline timeline{pair.machine};
  const auto meeting = pair.meeting();
  pair.join(meeting, 0, 10ns);
  pair.join(meeting, 1, 30ns);
  pair.launch(fixed_kernel("after", 5ns), 0);
  pair.devices[0]->synchronize();
  CHECK(timeline.at("part 0").end == 30ns);
  CHECK(timeline.at("part 1").end == 30ns);
  CHECK(timeline.at("after").begin == 30ns);
  CHECK(pair.devices[0]->busy(Engine::link) == 30ns);
}

TEST_CASE("a device takes part in one meeting at a time") {
  Pair pair;
  Timeline timeline{pair.machine};
  const auto one = pair.meeting();
  const auto other = pair.meeting();
  pair.join(one, 0);
  pair.join(one, 1);
  for (unsigned i = 0; i < 2; ++i) {
    pair.streams[i] = pair.devices[i]->create_stream();
    Operation part = fixed_kernel("other", 20ns);
    part.meeting = other;
    part.party = i;
    pair.launch(std::move(part), i);
  }
  pair.devices[0]->synchronize();
  CHECK(timeline.at("other").begin == 10ns);
  CHECK(timeline.at("other").end == 30ns);
}

TEST_CASE("the effect of a meeting gets the views of each party, under any schedule") {
  const auto seed = GENERATE(range(0, 8));
  Pair pair{schedule_of(static_cast<std::uint64_t>(seed))};
  const auto meeting = pair.swap();
  pair.join(meeting, 0);
  pair.join(meeting, 1);
  CHECK(pair.value(0) == std::byte{9});
  CHECK(pair.value(1) == std::byte{7});
  CHECK(meeting->met());
}

TEST_CASE("actors that wait for a meeting continue once the last part has joined it") {
  const auto seed = GENERATE(range(0, 8));
  Pair pair{schedule_of(static_cast<std::uint64_t>(seed))};
  const auto meeting = pair.meeting();
  std::array<std::unique_ptr<Executor::Task>, 2> ranks;
  for (unsigned i = 0; i < 2; ++i) {
    ranks[i] = pair.machine.executor().spawn("rank", [&, i] {
      if (i == 1) pair.machine.executor().spend(1us);
      pair.join(meeting, i);
      pair.devices[i]->synchronize(pair.streams[i]);
    });
  }
  for (const auto& rank : ranks) rank->join();
  CHECK(meeting->met());
}

TEST_CASE("a full launch queue empties through a meeting after another device's work") {
  const auto seed = GENERATE(range(0, 8));
  VirtualMachine machine{schedule_of(static_cast<std::uint64_t>(seed))};
  VirtualDevice::Options shallow = plain_options();
  shallow.launch_queue_depth = 4;
  std::array<VirtualDevice*, 2> devices{&machine.add_device(shallow), &machine.add_device()};
  std::array<StreamHandle, 2> streams{devices[0]->create_stream(), devices[1]->create_stream()};
  const auto meeting = machine.make_meeting(2, nullptr);
  devices[1]->launch(fixed_kernel("before", 100ns), streams[1]);
  for (unsigned i = 2; i-- > 0;) {
    Operation part = fixed_kernel("part", 10ns);
    part.meeting = meeting;
    part.party = i;
    devices[i]->launch(std::move(part), streams[i]);
  }
  for (int i = 0; i < 10; ++i) devices[0]->launch(fixed_kernel("after", 10ns), streams[0]);
  CHECK(meeting->met());
}

TEST_CASE("a wait for a meeting that others never join fails, and says why") {
  Pair pair;
  const auto meeting = pair.meeting();
  pair.join(meeting, 0);
  CHECK_THROWS_WITH(pair.devices[0]->synchronize(),
                    Catch::Matchers::ContainsSubstring("others have not come"));
}

TEST_CASE("a canceled meeting ends without an effect, and so do parts that join later") {
  const auto seed = GENERATE(range(0, 4));
  Pair pair{schedule_of(static_cast<std::uint64_t>(seed))};
  const auto meeting = pair.swap();
  pair.join(meeting, 0);
  meeting->cancel();
  CHECK(pair.value(0) == std::byte{7});
  pair.join(meeting, 1);
  CHECK(pair.value(1) == std::byte{9});
  CHECK(meeting->canceled());
  CHECK_FALSE(meeting->met());
}

TEST_CASE("an effect that throws loses each device of the meeting") {
  Pair pair;
  const auto meeting = pair.meeting([](auto) { throw std::runtime_error{"nothing fits"}; });
  pair.join(meeting, 0);
  pair.join(meeting, 1);
  for (VirtualDevice* device : pair.devices) {
    CHECK_THROWS_WITH(device->synchronize(), Catch::Matchers::ContainsSubstring("nothing fits"));
  }
}

TEST_CASE("a part that does not fit its meeting is refused") {
  Pair pair;
  const auto meeting = pair.meeting();
  pair.join(meeting, 0);
  CHECK_THROWS_AS(pair.join(meeting, 0), DeviceError);
  Operation beyond = fixed_kernel("beyond", 1ns);
  beyond.meeting = meeting;
  beyond.party = 2;
  CHECK_THROWS_AS(pair.launch(beyond, 1), DeviceError);
  Operation kernel = fixed_kernel("kernel", 1ns);
  kernel.meeting = meeting;
  kernel.party = 1;
  kernel.host = [](const KernelContext&) {};
  CHECK_THROWS_AS(pair.launch(kernel, 1), DeviceError);
  Pair other;
  Operation stranger = fixed_kernel("stranger", 1ns);
  stranger.meeting = meeting;
  stranger.party = 1;
  CHECK_THROWS_AS(other.launch(stranger, 1), DeviceError);
  CHECK_THROWS_AS(pair.meeting(nullptr, 0), std::invalid_argument);
  meeting->cancel();
}

TEST_CASE("a machine that ends cancels its incomplete meetings") {
  std::shared_ptr<Meeting> meeting;
  {
    Pair pair;
    meeting = pair.meeting();
    pair.join(meeting, 0);
  }
  CHECK(meeting->canceled());
}

namespace {

/** Both streams write the same pinned memory: stream 0 before the meeting, stream 1 after it. */
std::size_t races_over(bool they_meet) {
  Pair pair;
  CheckingObserver checker;
  for (VirtualDevice* device : pair.devices) checker.attach(*device);
  void* const shared = pair.devices[0]->allocate_host(kBytes);
  const auto touch = [&](std::size_t on) {
    Operation write = fixed_kernel("write", 1ns);
    write.views = {{shared, kBytes, Access::write}};
    pair.launch(std::move(write), on);
  };
  touch(0);
  if (they_meet) {
    const auto meeting = pair.meeting();
    pair.join(meeting, 0);
    pair.join(meeting, 1);
  }
  touch(1);
  pair.devices[1]->synchronize();
  pair.devices[0]->synchronize();
  return checker.races().size();
}

}  // namespace

TEST_CASE("the race checker orders work before a meeting with work after it") {
  CHECK(races_over(true) == 0);
  CHECK(races_over(false) == 1);
}

TEST_CASE("the race checker checks the views of a meeting's parts") {
  Pair pair;
  CheckingObserver checker;
  for (VirtualDevice* device : pair.devices) checker.attach(*device);
  pair.launch(fixed_kernel("before", 1ns), 0);
  const StreamHandle side = pair.devices[0]->create_stream({.name = "side"});
  Operation write = fixed_kernel("write", 1ns);
  write.views = {{pair.memory[0], kBytes, Access::write}};
  pair.devices[0]->launch(std::move(write), side);
  const auto meeting = pair.meeting();
  pair.join(meeting, 0, 10ns, Access::read);
  pair.join(meeting, 1, 10ns, Access::read);
  pair.devices[0]->synchronize();
  REQUIRE(checker.races().size() == 1);
  CHECK(checker.races()[0].kind == RaceChecker::RaceKind::read_after_write);
}
