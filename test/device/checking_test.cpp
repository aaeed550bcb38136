#include "millrace/device/checking.hpp"

#include <array>
#include <chrono>
#include <functional>
#include <string>

#include "test/support/catch.hpp"
#include "test/support/plain_device.hpp"

using namespace std::chrono_literals;
using namespace millrace;
using Catch::Matchers::ContainsSubstring;
using test::plain_options;

namespace {

struct Bench {
  Bench() {
    checking.attach(device);
    checking.attach(machine.executor());
    checking.name_this_thread("main");
  }

  StreamHandle stream(const std::string& name) {
    StreamOptions options;
    options.name = name;
    return device.create_stream(options);
  }

  Operation reads(const std::string& name) {
    Operation operation;
    operation.name = name;
    operation.views = {{memory, 100, Access::read}};
    return operation;
  }

  VirtualMachine machine;
  VirtualDevice& device = machine.add_device(plain_options());
  void* memory = device.allocate(1000);
  void* pinned = device.allocate_host(1000);
  CheckingObserver checking;
};

}  // namespace

TEST_CASE("a missing edge between two streams is named, and a wait removes the race") {
  Bench bench;
  const StreamHandle copy = bench.stream("copy");
  const StreamHandle main = bench.stream("main");
  const EventHandle event = bench.device.create_event();
  const bool edge = GENERATE(false, true);
  bench.device.copy(bench.memory, bench.pinned, 100, CopyKind::host_to_device, copy);
  bench.device.record(event, copy);
  if (edge) bench.device.wait(main, event);
  bench.device.launch(bench.reads("gather"), main);
  const auto races = bench.checking.races();
  if (edge) {
    CHECK(races.empty());
  } else {
    REQUIRE(races.size() == 1);
    CHECK(races[0].kind == RaceChecker::RaceKind::read_after_write);
    CHECK_THAT(races[0].message, ContainsSubstring("h2d") && ContainsSubstring("gather") &&
                                     ContainsSubstring("copy"));
  }
  CHECK(bench.checking.operations() == 2);
}

TEST_CASE("early reuse by another stream is found even if the memory was freed") {
  Bench bench;
  const StreamHandle one = bench.stream("one");
  const StreamHandle two = bench.stream("two");
  bench.checking.allocated(bench.memory, 500, bench.device, one);
  bench.device.fill(bench.memory, 1, 500, one);
  bench.checking.freed(bench.memory);
  bench.checking.allocated(bench.memory, 300, bench.device, two);
  bench.device.fill(bench.memory, 2, 300, two);
  REQUIRE_FALSE(bench.checking.races().empty());
  CHECK(bench.checking.races()[0].kind == RaceChecker::RaceKind::early_reuse);
}

TEST_CASE("early reuse is found if the pages have another address now") {
  Bench bench;
  const StreamHandle one = bench.stream("one");
  const StreamHandle two = bench.stream("two");
  const std::size_t page = bench.device.page_bytes();
  auto* const range = static_cast<std::byte*>(bench.device.reserve_range(8 * page));
  bench.device.map(range, 2 * page);
  bench.checking.allocated(range, 2 * page, bench.device, one);
  bench.device.fill(range + page, 1, page, one);
  bench.checking.freed(range);
  const bool edge = GENERATE(false, true);
  if (edge) {
    const EventHandle event = bench.device.create_event();
    bench.device.record(event, one);
    bench.device.wait(two, event);
  }
  bench.device.alias(range + 4 * page, range + page, page);
  bench.checking.allocated(range + 4 * page, page, bench.device, two);
  bench.device.fill(range + 4 * page, 2, page, two);
  const auto races = bench.checking.races();
  CHECK(races.empty() == edge);
  if (!edge) CHECK(races[0].kind == RaceChecker::RaceKind::early_reuse);
}

TEST_CASE("a new stream with a reused handle is not mistaken for the old stream") {
  Bench bench;
  const StreamHandle old = bench.stream("old");
  bench.device.fill(bench.memory, 1, 100, old);
  bench.device.destroy_stream(old);
  const StreamHandle fresh = bench.stream("fresh");
  REQUIRE(fresh == old);
  bench.device.fill(bench.memory, 2, 100, fresh);
  CHECK(bench.checking.races().size() == 1);
}

TEST_CASE("a host may refill pinned memory only if it knows that the copy is complete") {
  Bench bench;
  const StreamHandle copy = bench.stream("copy");
  const EventHandle event = bench.device.create_event();
  bench.checking.host_writes(bench.pinned, 100, "fill");
  bench.device.copy(bench.memory, bench.pinned, 100, CopyKind::host_to_device, copy);
  bench.device.record(event, copy);
  SECTION("the host does not know it") {
    bench.checking.host_writes(bench.pinned, 100, "refill");
    REQUIRE(bench.checking.races().size() == 1);
    CHECK(bench.checking.races()[0].kind == RaceChecker::RaceKind::write_after_read);
  }
  SECTION("the host synchronized with the event") {
    bench.device.synchronize(event);
    bench.checking.host_writes(bench.pinned, 100, "refill");
    CHECK(bench.checking.races().empty());
  }
  SECTION("a query said that the event is complete") {
    bench.machine.executor().spend(1ms);
    REQUIRE(bench.device.query(event));
    bench.checking.host_writes(bench.pinned, 100, "refill");
    CHECK(bench.checking.races().empty());
  }
}

TEST_CASE("pageable memory that the heap moves between threads causes no race") {
  Bench bench;
  Executor& executor = bench.machine.executor();
  const StreamHandle one = bench.stream("one");
  const StreamHandle two = bench.stream("two");
  std::array<char, 100> heap{};  // the heap may pass it from one thread to the other
  const auto way = GENERATE(CopyKind::device_to_host, CopyKind::host_to_device);
  const auto copy = [&](StreamHandle stream, std::ptrdiff_t at) {
    char* const device = static_cast<char*>(bench.memory) + at;
    const bool down = way == CopyKind::device_to_host;
    bench.device.copy(down ? heap.data() : device, down ? device : heap.data(), 100, way, stream);
  };
  const auto other = executor.spawn("other", [&] { copy(one, 0); });
  executor.spend(1ms);
  copy(two, 500);
  CHECK(bench.checking.races().empty());
  SECTION("the device memory of such a copy is checked") {
    copy(bench.stream("three"), 500);
    CHECK(bench.checking.races().size() == (way == CopyKind::host_to_device ? 1U : 0U));
  }
  SECTION("pinned memory is checked") {
    const StreamHandle three = bench.stream("three");
    const void* const untouched = static_cast<char*>(bench.memory) + 800;
    bench.device.copy(bench.pinned, untouched, 100, CopyKind::device_to_host, two);
    bench.device.copy(bench.pinned, untouched, 100, CopyKind::device_to_host, three);
    CHECK(bench.checking.races().size() == 1);
  }
  other->join();
}

TEST_CASE("two actors that hand a buffer over need an edge between them") {
  Bench bench;
  Executor& executor = bench.machine.executor();
  const StreamHandle copy = bench.stream("copy");
  const auto loader = executor.spawn("loader", [&] {
    executor.spend(100ns);
    bench.checking.host_writes(bench.pinned, 100, "fill");
  });
  const bool joins = GENERATE(false, true);
  if (joins) {
    loader->join();
  } else {
    executor.spend(200ns);
  }
  bench.device.copy(bench.memory, bench.pinned, 100, CopyKind::host_to_device, copy);
  CHECK(bench.checking.races().size() == (joins ? 0U : 1U));
}

TEST_CASE("a callback is ordered with its stream, not with the thread that enqueued it") {
  Bench bench;
  const StreamHandle copy = bench.stream("copy");
  bench.device.copy(bench.pinned, bench.memory, 100, CopyKind::device_to_host, copy);
  bench.device.callback(copy, [&] { bench.checking.host_reads(bench.pinned, 100, "ship"); });
  SECTION("later work of the stream follows it") {
    bench.device.copy(bench.pinned, bench.memory, 100, CopyKind::device_to_host, copy);
    bench.device.synchronize(copy);
    CHECK(bench.checking.races().empty());
  }
  SECTION("the host is not ordered after it") {
    bench.machine.executor().spend(1ms);
    bench.checking.host_writes(bench.pinned, 100, "refill");
    CHECK_FALSE(bench.checking.races().empty());
  }
}

TEST_CASE("the checker knows the order of the legacy stream and of synchronization") {
  Bench bench;
  StreamOptions blocking;
  blocking.blocking = true;
  const StreamHandle one = bench.device.create_stream(blocking);
  const StreamHandle two = bench.stream("two");
  bench.device.fill(bench.memory, 1, 100, one);
  bench.device.launch(bench.reads("legacy"), bench.device.legacy_stream());
  bench.device.fill(bench.memory, 2, 100, one);
  CHECK(bench.checking.races().empty());
  SECTION("the device was synchronized") {
    bench.device.synchronize();
    bench.device.fill(bench.memory, 3, 100, two);
    CHECK(bench.checking.races().empty());
  }
  SECTION("a stream was synchronized") {
    bench.device.synchronize(one);
    bench.device.fill(bench.memory, 3, 100, two);
    CHECK(bench.checking.races().empty());
  }
  SECTION("nothing was synchronized") {
    bench.device.fill(bench.memory, 3, 100, two);
    CHECK_FALSE(bench.checking.races().empty());
  }
}

TEST_CASE("the devices of a run are distinguished") {
  Bench bench;
  VirtualDevice& other = bench.machine.add_device(plain_options());
  bench.checking.attach(other);
  void* const pinned = bench.pinned;
  bench.device.copy(bench.memory, pinned, 100, CopyKind::host_to_device,
                    bench.device.legacy_stream());
  void* const memory = other.allocate(100);
  other.copy(pinned, memory, 100, CopyKind::device_to_host, other.legacy_stream());
  CHECK(bench.checking.races().size() == 1);
  bench.checking.detach(other);
  other.copy(pinned, memory, 100, CopyKind::device_to_host, other.create_stream());
  CHECK(bench.checking.races().size() == 1);
}

TEST_CASE("memory of the driver's pool is checked from its allocation to its free") {
  Bench bench;
  const StreamHandle copy = bench.stream("copy");
  const StreamHandle main = bench.stream("main");
  const EventHandle event = bench.device.create_event();
  const bool edge = GENERATE(false, true);
  void* const batch = bench.device.allocate_async(100, copy);
  bench.device.copy(batch, bench.pinned, 100, CopyKind::host_to_device, copy);
  bench.device.record(event, copy);
  bench.device.wait(main, event);
  Operation forward;
  forward.name = "forward";
  forward.views = {{batch, 100, Access::read}};
  bench.device.launch(forward, main);
  bench.device.record(event, main);
  if (edge) bench.device.wait(copy, event);
  bench.device.free_async(batch, copy);
  const auto races = bench.checking.races();
  if (edge) {
    CHECK(races.empty());
  } else {
    REQUIRE(races.size() == 1);
    CHECK(races[0].kind == RaceChecker::RaceKind::use_after_free);
    CHECK_THAT(races[0].message, ContainsSubstring("forward") && ContainsSubstring("wait on copy"));
  }
}

TEST_CASE("completions seen by another thread order a thread that learns of them") {
  Bench bench;
  Executor& executor = bench.machine.executor();
  const StreamHandle copy = bench.stream("copy");
  const bool learns = GENERATE(false, true);
  void* const batch = bench.device.allocate_async(100, copy);
  const StreamHandle main = bench.stream("main");
  const EventHandle event = bench.device.create_event();
  bench.device.record(event, copy);
  bench.device.wait(main, event);
  bench.device.fill(batch, 1, 100, main);
  const auto other = executor.spawn("other", [&] { bench.device.synchronize(main); });
  executor.spend(1ms);
  if (learns) bench.device.learn_completions();
  bench.device.free_async(batch, copy);
  CHECK(bench.checking.races().size() == (learns ? 0U : 1U));
  other->join();
}
