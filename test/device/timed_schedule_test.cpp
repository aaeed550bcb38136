#include <chrono>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using test::busy_kernel;
using test::fixed_kernel;
using test::plain_options;
using test::plain_profile;
using test::Timeline;

namespace {

struct ScheduleBench {
  explicit ScheduleBench(const VirtualDevice::Options& options = plain_options())
      : device(machine.add_device(options)) {}

  VirtualMachine machine;
  VirtualDevice& device;
  Timeline timeline{machine};

  StreamHandle stream(int priority = 0) {
    StreamOptions options;
    options.priority = priority;
    return device.create_stream(options);
  }
};

}  // namespace

TEST_CASE("work of one stream runs in order, each part after the end of the previous one") {
  ScheduleBench bench;
  const StreamHandle stream = bench.stream();
  bench.device.launch(fixed_kernel("a", 100ns), stream);
  bench.device.launch(fixed_kernel("b", 50ns), stream);
  bench.device.synchronize(stream);
  CHECK(bench.timeline.at("a").begin == 0ns);
  CHECK(bench.timeline.at("a").end == 100ns);
  CHECK(bench.timeline.at("b").begin == 100ns);
  CHECK(bench.timeline.at("b").end == 150ns);
  CHECK(bench.machine.now() == 150ns);
}

TEST_CASE("a stream that waits for an event starts when the event's work has ended") {
  ScheduleBench bench;
  const StreamHandle one = bench.stream();
  const StreamHandle two = bench.stream();
  const EventHandle event = bench.device.create_event();
  bench.device.launch(fixed_kernel("a", 100ns), one);
  bench.device.record(event, one);
  bench.device.launch(fixed_kernel("after the event", 30ns), one);
  bench.device.launch(fixed_kernel("before the wait", 20ns), two);
  bench.device.wait(two, event);
  bench.device.launch(fixed_kernel("b", 50ns), two);
  bench.device.synchronize();
  CHECK(bench.timeline.at("before the wait").begin == 0ns);
  CHECK(bench.timeline.at("after the event").begin == 100ns);
  CHECK(bench.timeline.at("b").begin == 100ns);
  CHECK(bench.machine.now() == 150ns);
}

TEST_CASE("a copy overlaps a kernel of another stream, and no copy in its own direction") {
  ScheduleBench bench;
  void* const memory = bench.device.allocate(4096);
  void* const pinned = bench.device.allocate_host(4096);
  const StreamHandle one = bench.stream();
  const StreamHandle two = bench.stream();
  const StreamHandle three = bench.stream();
  const StreamHandle four = bench.stream();
  const Nanoseconds start = bench.machine.now();
  bench.device.copy(memory, pinned, 1000, CopyKind::host_to_device, one);
  bench.device.launch(busy_kernel("kernel", 700ns), two);
  bench.device.copy(static_cast<char*>(memory) + 2048, pinned, 500, CopyKind::host_to_device,
                    three);
  bench.device.copy(static_cast<char*>(pinned) + 2048, memory, 800, CopyKind::device_to_host, four);
  bench.device.synchronize();
  CHECK(bench.timeline.at("kernel").begin == start);
  CHECK(bench.timeline.at("d2h").end == start + 800ns);
  CHECK(bench.machine.now() == start + 1500ns);
  CHECK(bench.device.busy(Engine::host_to_device) == 1500ns);
  CHECK(bench.device.busy(Engine::device_to_host) == 800ns);
  CHECK(bench.device.busy(Engine::compute) == 700ns);
}

TEST_CASE("two kernels that each need the whole machine take as long as both together") {
  ScheduleBench bench;
  bench.device.launch(busy_kernel("a", 1000ns), bench.stream());
  bench.device.launch(busy_kernel("b", 1000ns), bench.stream());
  bench.device.synchronize();
  CHECK(bench.timeline.at("a").end == 2000ns);
  CHECK(bench.timeline.at("b").end == 2000ns);
}

TEST_CASE("a kernel that is joined by another is slowed only while both run") {
  // a runs alone for 400 ns. Then both run at half speed until b's 300 ns are done, at 1000 ns. The
  // remaining 300 ns of a run alone.
  ScheduleBench bench;
  const StreamHandle two = bench.stream();
  bench.device.launch(busy_kernel("a", 1000ns), bench.stream());
  bench.device.launch(fixed_kernel("delay", 400ns), two);
  bench.device.launch(busy_kernel("b", 300ns), two);
  bench.device.synchronize();
  CHECK(bench.timeline.at("b").begin == 400ns);
  CHECK(bench.timeline.at("b").end == 1000ns);
  CHECK(bench.timeline.at("a").end == 1300ns);
}

TEST_CASE("kernels whose demands fit together do not slow each other") {
  ScheduleBench bench;
  Operation a = busy_kernel("a", 1000ns);  // all arithmetic units, a quarter of the bandwidth
  a.cost.bytes = 500;
  Operation b;
  b.name = "b";
  b.cost.bytes = 1500;
  SECTION("together they need no more than the machine has") {
    bench.device.launch(a, bench.stream());
    bench.device.launch(fixed_kernel("fixed", 1000ns), bench.stream());
    bench.device.synchronize();
    CHECK(bench.timeline.at("a").end == 1000ns);
    CHECK(bench.timeline.at("fixed").end == 1000ns);
  }
  SECTION("together they need a quarter too much bandwidth") {
    // Alone, b takes 750 ns and all of the bandwidth. Both run at 1 / 1.25 of full speed, so b ends
    // after 937.5 ns. By then a has done 750 ns of its 1000 ns. The rest of a runs alone.
    bench.device.launch(a, bench.stream());
    bench.device.launch(b, bench.stream());
    bench.device.synchronize();
    CHECK(bench.timeline.at("b").end == 938ns);
    CHECK(bench.timeline.at("a").end == 1188ns);
  }
}

TEST_CASE("a kernel's traffic to host memory takes the link in its direction, shared with others") {
  // 1000 bytes take 1000 ns in either direction.
  ScheduleBench bench;
  Operation reader, writer;
  reader.name = "reader";
  reader.cost.host_read = 1000;
  reader.cost.bytes = 500;  // a quarter of the device's bandwidth
  writer.name = "writer";
  writer.cost.host_written = 600;
  Operation other = reader;
  other.name = "other";
  other.cost.host_read = 500;
  SECTION("both ways at once") {
    bench.device.launch(reader, bench.stream());
    bench.device.launch(writer, bench.stream());
    bench.device.synchronize();
    CHECK(bench.timeline.at("reader").end == 1000ns);
    CHECK(bench.timeline.at("writer").end == 600ns);
  }
  SECTION("one way") {
    bench.device.launch(reader, bench.stream());
    bench.device.launch(other, bench.stream());
    bench.device.synchronize();
    CHECK(bench.timeline.at("other").end == 1000ns);
    CHECK(bench.timeline.at("reader").end == 1500ns);
  }
}

TEST_CASE("kernels of a stream with higher priority take the machine first") {
  ScheduleBench bench;
  bench.device.launch(busy_kernel("low", 1000ns), bench.stream(0));
  bench.device.launch(busy_kernel("high", 600ns), bench.stream(-1));
  bench.device.synchronize();
  CHECK(bench.timeline.at("high").end == 600ns);
  CHECK(bench.timeline.at("low").end == 1600ns);
}

TEST_CASE("among copies that become ready together, the one with higher priority goes first") {
  ScheduleBench bench;
  void* const memory = bench.device.allocate(4096);
  void* const pinned = bench.device.allocate_host(4096);
  const StreamHandle first = bench.stream();
  const StreamHandle low = bench.stream(0);
  const StreamHandle high = bench.stream(-1);
  const EventHandle event = bench.device.create_event();
  bench.device.launch(fixed_kernel("delay", 100ns), first);
  bench.device.record(event, first);
  bench.device.wait(low, event);
  bench.device.wait(high, event);
  bench.device.copy(memory, pinned, 10, CopyKind::host_to_device, low);
  bench.device.copy(memory, pinned, 20, CopyKind::host_to_device, high);
  bench.device.synchronize();
  std::vector<Nanoseconds> lengths;
  for (const auto& entry : bench.timeline.entries()) {
    if (entry.name == "h2d") lengths.push_back(entry.end - entry.begin);
  }
  CHECK(lengths == std::vector<Nanoseconds>{20ns, 10ns});
}

TEST_CASE("no more kernels run at once than the device allows") {
  auto options = plain_options();
  options.profile.concurrent_kernels = 2;
  ScheduleBench bench{options};
  for (const char* name : {"a", "b", "c"}) {
    bench.device.launch(fixed_kernel(name, 100ns), bench.stream());
  }
  bench.device.synchronize();
  CHECK(bench.timeline.at("b").end == 100ns);
  CHECK(bench.timeline.at("c").begin == 100ns);
}

TEST_CASE("a full launch queue blocks the call until there is room") {
  auto options = plain_options();
  options.launch_queue_depth = 2;
  ScheduleBench bench{options};
  const StreamHandle stream = bench.stream();
  bench.device.launch(fixed_kernel("a", 100ns), stream);
  bench.device.launch(fixed_kernel("b", 100ns), stream);
  CHECK(bench.machine.now() == 0ns);
  bench.device.launch(fixed_kernel("c", 100ns), stream);
  CHECK(bench.machine.now() == 100ns);
  CHECK(bench.device.pending() == 2);
}

TEST_CASE("calls take their host time, and an idle device adds the launch latency once") {
  auto options = plain_options();
  options.profile.host_time[static_cast<std::size_t>(Call::launch)] = 4ns;
  options.profile.launch_latency = 10ns;
  options.profile.wake_latency = 3ns;
  ScheduleBench bench{options};
  const StreamHandle stream = bench.stream();
  bench.device.launch(fixed_kernel("a", 100ns), stream);
  bench.device.launch(fixed_kernel("b", 100ns), stream);
  CHECK(bench.machine.now() == 8ns);
  bench.device.synchronize(stream);
  CHECK(bench.timeline.at("a").begin == 14ns);
  CHECK(bench.timeline.at("b").begin == 114ns);
  CHECK(bench.machine.now() == 217ns);
}

TEST_CASE("records and waits take their latencies on the stream") {
  auto options = plain_options();
  options.profile.record_latency = 5ns;
  options.profile.wait_latency = 7ns;
  ScheduleBench bench{options};
  const StreamHandle one = bench.stream();
  const StreamHandle two = bench.stream();
  const EventHandle event = bench.device.create_event(true);
  bench.device.launch(fixed_kernel("a", 100ns), one);
  bench.device.record(event, one);
  bench.device.wait(two, event);
  bench.device.launch(fixed_kernel("b", 100ns), two);
  bench.device.synchronize();
  CHECK(bench.device.event_time(event) == 105ns);
  CHECK(bench.timeline.at("b").begin == 112ns);
}

TEST_CASE("no kernel is shorter than the device's minimum") {
  auto options = plain_options();
  options.profile.minimum_kernel = 50ns;
  ScheduleBench bench{options};
  const StreamHandle stream = bench.stream();
  bench.device.launch(busy_kernel("short", 10ns), stream);
  bench.device.launch(busy_kernel("long", 200ns), stream);
  bench.device.synchronize();
  CHECK(bench.timeline.at("short").end == 50ns);
  CHECK(bench.timeline.at("long").end == 250ns);
}

TEST_CASE("an operation on the legacy stream waits for blocking streams, and they wait for it") {
  ScheduleBench bench;
  StreamOptions blocking;
  blocking.blocking = true;
  const StreamHandle a = bench.device.create_stream(blocking);
  const StreamHandle b = bench.device.create_stream(blocking);
  const StreamHandle free = bench.stream();
  bench.device.launch(fixed_kernel("a", 100ns), a);
  bench.device.launch(fixed_kernel("b", 40ns), b);
  bench.device.launch(fixed_kernel("legacy", 10ns), bench.device.legacy_stream());
  bench.device.launch(fixed_kernel("b2", 10ns), b);
  bench.device.launch(fixed_kernel("free", 10ns), free);
  bench.device.synchronize();
  CHECK(bench.timeline.at("legacy").begin == 100ns);
  CHECK(bench.timeline.at("b2").begin == 110ns);
  CHECK(bench.timeline.at("free").begin == 0ns);
}

TEST_CASE("a pageable copy blocks the host until it is complete, at the pageable speed") {
  auto options = plain_options();
  options.profile.pageable = 0.5e9;
  ScheduleBench bench{options};
  void* const memory = bench.device.allocate(4096);
  std::vector<char> pageable(100);
  bench.device.copy(memory, pageable.data(), 100, CopyKind::host_to_device, bench.stream());
  CHECK(bench.machine.now() == 200ns);
}

TEST_CASE("a callback runs after the stream's work, and later work of the stream after it") {
  auto options = plain_options();
  options.profile.callback_latency = 20ns;
  ScheduleBench bench{options};
  const StreamHandle stream = bench.stream();
  Nanoseconds at{0};
  bench.device.launch(fixed_kernel("a", 100ns), stream);
  bench.device.callback(stream, [&] {
    at = bench.machine.now();
    bench.machine.executor().spend(30ns);
  });
  bench.device.launch(fixed_kernel("b", 10ns), stream);
  bench.device.synchronize(stream);
  CHECK(at == 120ns);
  CHECK(bench.timeline.at("b").begin == 150ns);
}

TEST_CASE("work after a gate starts when the gate is opened") {
  ScheduleBench bench;
  const StreamHandle stream = bench.stream();
  Gate gate = bench.device.enqueue_gate(stream);
  bench.device.launch(fixed_kernel("a", 10ns), stream);
  bench.machine.executor().spend(500ns);
  CHECK_FALSE(bench.device.query(stream));
  gate.open();
  bench.device.synchronize(stream);
  CHECK(bench.timeline.at("a").begin == 500ns);
}

TEST_CASE("devices of one machine share the clock, and events order work across them") {
  VirtualMachine machine;
  VirtualDevice& one = machine.add_device(plain_options());
  VirtualDevice& two = machine.add_device(plain_options());
  const Timeline timeline{machine};
  const StreamHandle on_one = one.create_stream();
  const StreamHandle on_two = two.create_stream();
  const EventHandle event = one.create_event();
  one.launch(fixed_kernel("a", 100ns), on_one);
  one.record(event, on_one);
  two.wait(on_two, event);
  two.launch(fixed_kernel("b", 50ns), on_two);
  two.synchronize(on_two);
  CHECK(timeline.at("b").begin == 100ns);
  CHECK(machine.now() == 150ns);
  CHECK(one.busy(Engine::compute) == 100ns);
  CHECK(two.busy(Engine::compute) == 50ns);
}
