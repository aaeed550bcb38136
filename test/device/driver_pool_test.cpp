#include <chrono>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"
#include "test/support/sizes.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::fixed_kernel;
using test::MiB;
using test::plain_options;
using test::Timeline;

namespace {

VirtualDevice::Options with_policy(const DriverPoolPolicy& policy) {
  auto options = plain_options(64 * MiB);
  options.profile.pool_granularity = 16 * MiB;
  options.profile.pool = policy;
  return options;
}

DriverPoolPolicy no_reuse_across_streams() {
  DriverPoolPolicy policy;
  policy.follow_event_dependencies = false;
  policy.allow_opportunistic = false;
  policy.allow_internal_dependencies = false;
  return policy;
}

/// Stream `one` frees a block of 16 MiB after 100 ns of work. Then `two` allocates 16 MiB.
struct Handover {
  explicit Handover(const DriverPoolPolicy& policy)
      : device(machine.add_device(with_policy(policy))) {
    freed = device.allocate_async(16 * MiB, one);
    device.launch(fixed_kernel("use", 100ns), one);
    device.free_async(freed, one);
  }

  bool two_gets_it() { return device.allocate_async(16 * MiB, two) == freed; }

  VirtualMachine machine;
  VirtualDevice& device;
  StreamHandle one = device.create_stream();
  StreamHandle two = device.create_stream();
  void* freed = nullptr;
};

}  // namespace

TEST_CASE("the stream of a free may reuse the pool's memory at once") {
  Handover handover{no_reuse_across_streams()};
  CHECK(handover.device.allocate_async(16 * MiB, handover.one) == handover.freed);
  CHECK(handover.device.pool_info().reserved == 16 * MiB);
}

TEST_CASE("without a rule for reuse, the pool gives another stream new memory") {
  Handover handover{no_reuse_across_streams()};
  CHECK_FALSE(handover.two_gets_it());
  CHECK(handover.device.pool_info().reserved == 32 * MiB);
}

TEST_CASE("an opportunistic pool gives another stream memory whose free has run") {
  DriverPoolPolicy policy = no_reuse_across_streams();
  policy.allow_opportunistic = true;
  SECTION("the free has not run yet") {
    Handover handover{policy};
    CHECK_FALSE(handover.two_gets_it());
  }
  SECTION("the free has run, and no call has observed it") {
    Handover handover{policy};
    handover.machine.executor().spend(101ns);
    CHECK(handover.two_gets_it());
  }
}

TEST_CASE("a pool that follows events gives another stream memory that they order") {
  DriverPoolPolicy policy = no_reuse_across_streams();
  policy.follow_event_dependencies = true;
  Handover handover{policy};
  VirtualDevice& device = handover.device;
  const EventHandle event = device.create_event();
  SECTION("an event after the free") {
    device.record(event, handover.one);
    device.wait(handover.two, event);
    CHECK(handover.two_gets_it());
  }
  SECTION("through a third stream") {
    const StreamHandle three = device.create_stream();
    const EventHandle second = device.create_event();
    device.record(event, handover.one);
    device.wait(three, event);
    device.record(second, three);
    device.wait(handover.two, second);
    CHECK(handover.two_gets_it());
  }
  SECTION("an event that is recorded again after the wait changes nothing") {
    const EventHandle early = device.create_event();
    device.record(early, handover.two);
    device.wait(handover.two, early);
    device.record(early, handover.one);
    CHECK_FALSE(handover.two_gets_it());
  }
  SECTION("no event") { CHECK_FALSE(handover.two_gets_it()); }
}

TEST_CASE("on a full device the pool adds a dependency, if it may") {
  DriverPoolPolicy policy = no_reuse_across_streams();
  policy.allow_internal_dependencies = GENERATE(true, false);
  Handover handover{policy};
  VirtualDevice& device = handover.device;
  const Timeline timeline{handover.machine};
  void* const rest = device.allocate(48 * MiB);
  if (policy.allow_internal_dependencies) {
    CHECK(handover.two_gets_it());
    device.launch(fixed_kernel("second use", 1ns), handover.two);
    device.synchronize();
    CHECK(timeline.at("second use").begin == 100ns);
  } else {
    CHECK_THROWS_AS(handover.two_gets_it(), DeviceError);
    CHECK_NOTHROW(device.allocate_async(16 * MiB, handover.one));
  }
  device.free(rest);
}

TEST_CASE("at a synchronization the pool gives back the bytes above its threshold") {
  DriverPoolPolicy policy;
  policy.release_threshold = GENERATE(std::size_t{0}, 16 * MiB);
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(with_policy(policy));
  const StreamHandle stream = device.create_stream();
  void* const a = device.allocate_async(16 * MiB, stream);
  void* const b = device.allocate_async(10 * MiB, stream);
  device.free_async(a, stream);
  device.free_async(b, stream);
  CHECK(device.pool_info().reserved == 32 * MiB);
  device.synchronize(stream);
  CHECK(device.pool_info().reserved == policy.release_threshold);
  CHECK(device.memory_info().free == 64 * MiB - policy.release_threshold);
}

TEST_CASE("a trim keeps memory in use, and the pool counts used and reserved with their peaks") {
  DriverPoolPolicy policy;
  policy.release_threshold = 64 * MiB;
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(with_policy(policy));
  const StreamHandle stream = device.create_stream();
  void* const a = device.allocate_async(1000, stream);
  void* const b = device.allocate_async(16 * MiB, stream);
  CHECK(device.pool_info().used == 16 * MiB + 1024);
  device.free_async(b, stream);
  device.synchronize();
  device.trim_pool(0);
  CHECK(device.pool_info().used == 1024);
  CHECK(device.pool_info().used_high == 16 * MiB + 1024);
  CHECK(device.pool_info().reserved == 16 * MiB);
  CHECK(device.pool_info().reserved_high == 32 * MiB);
  device.free_async(a, stream);
  device.synchronize();
  device.trim_pool(0);
  CHECK(device.pool_info().reserved == 0);
}

TEST_CASE("freed neighbors in the pool serve a larger request together") {
  DriverPoolPolicy policy = no_reuse_across_streams();
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(with_policy(policy));
  const StreamHandle stream = device.create_stream();
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(device.allocate_async(4 * MiB, stream));
  for (const int i : {2, 0, 3, 1}) device.free_async(blocks[static_cast<std::size_t>(i)], stream);
  CHECK(device.allocate_async(16 * MiB, stream) == blocks[0]);
  CHECK(device.pool_info().reserved == 16 * MiB);
}

TEST_CASE("a synchronous allocation on a full device makes the pool give memory back") {
  VirtualMachine machine;
  DriverPoolPolicy policy;
  policy.release_threshold = 64 * MiB;
  VirtualDevice& device = machine.add_device(with_policy(policy));
  const StreamHandle stream = device.create_stream();
  device.free_async(device.allocate_async(40 * MiB, stream), stream);
  device.synchronize();
  CHECK_NOTHROW(device.allocate(60 * MiB));
  CHECK(device.pool_info().reserved == 0);
}
