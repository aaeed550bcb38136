#include <new>

#include "millrace/device/checking.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/host_memory/failing_host_memory.hpp"
#include "test/support/plain_device.hpp"

using namespace millrace;
using millrace::test::Bench;

namespace {

constexpr std::size_t kBytes = std::size_t{4} << 20;

/// An allocator over the driver's pool, and the bytes that the pool counts as used.
struct Pooled : Bench {
  DriverAllocator allocator{ordered};

  std::size_t used() { return device.pool_info().used; }
  /// Makes a call, in which the allocator may free the blocks that it has kept.
  void next_call() { allocator.deallocate(allocator.allocate(1, main)); }
  /// Makes a call with main idle before and after it.
  void call_on_main() {
    main.synchronize();
    next_call();
    main.synchronize();
  }
  /// Makes a call with the whole device idle before and after it.
  void call_when_idle() {
    ordered.synchronize();
    next_call();
    ordered.synchronize();
  }
};

/// Memory of main is freed while an independent stream, which a gate blocks, still uses it.
struct UsedElsewhere : Pooled {
  Stream spinning{ordered, {.name = "spinning"}, true};
  void* const memory = allocator.allocate(kBytes, main);
  Gate gate = [this] {
    allocator.record_use(memory, spinning);
    return device.enqueue_gate(spinning.handle());
  }();

  UsedElsewhere() { allocator.deallocate(memory); }
};

/// The race checker watches two threads. The other thread only synchronizes the device.
struct Watched : Pooled {
  CheckingObserver checking;
  Executor& executor = machine.executor();

  Watched() {
    checking.attach(device);
    checking.attach(executor);
  }

  /// Another thread waits for the whole device. This thread is not ordered after that wait.
  std::unique_ptr<Executor::Task> other_synchronizes() {
    auto other = executor.spawn("other", [&] { ordered.synchronize(); });
    executor.spend(std::chrono::milliseconds{20});
    return other;
  }
};

}  // namespace

TEST_CASE("memory that is freed in a host callback goes back to the driver's pool later") {
  Pooled bench;
  void* const memory = bench.allocator.allocate(kBytes, bench.main);
  bench.device.callback(bench.main.handle(), [&] { bench.allocator.deallocate(memory); });
  bench.device.synchronize(bench.main.handle());
  CHECK(bench.allocator.statistics().bytes.allocated.current == 0);
  bench.main.mark();
  bench.call_when_idle();
  CHECK(bench.used() == 0);
}

TEST_CASE("memory in use on an independent stream goes to the driver's pool after the use") {
  UsedElsewhere bench;
  bench.call_on_main();
  CHECK(bench.used() >= kBytes);
  bench.gate.open();
  bench.call_when_idle();
  CHECK(bench.used() == 0);
}

TEST_CASE("memory in use on another thread's per-thread stream goes to the pool after the use") {
  Pooled bench;
  const StreamHandle mine = bench.device.per_thread_stream();
  const bool owned = GENERATE(true, false);
  void* const memory =
      owned ? bench.allocator.allocate(kBytes, mine) : bench.allocator.allocate(kBytes, bench.main);
  if (!owned) bench.allocator.record_use(memory, mine);
  Gate gate = bench.device.enqueue_gate(mine);
  bench.machine.executor().spawn("other", [&] { bench.allocator.deallocate(memory); })->join();
  bench.call_on_main();
  CHECK(bench.used() >= kBytes);
  gate.open();
  bench.call_when_idle();
  CHECK(bench.used() == 0);
}

TEST_CASE("freed memory that cannot go to the driver's pool yet counts as active") {
  UsedElsewhere bench;
  CHECK(bench.allocator.statistics().bytes.allocated.current == 0);
  CHECK(bench.allocator.statistics().bytes.active.current == kBytes);
  bench.gate.open();
  CHECK(bench.allocator.trim() > 0);
  CHECK(bench.allocator.statistics().bytes.active.current == 0);
}

TEST_CASE("memory of a destroyed stream goes to the driver's pool once its work is complete") {
  Pooled bench;
  auto loader = std::make_unique<Stream>(bench.ordered, StreamOptions{.name = "loader"});
  void* const memory = bench.allocator.allocate(kBytes, *loader);
  Gate gate = bench.device.enqueue_gate(loader->handle());
  loader.reset();
  bench.allocator.deallocate(memory);
  bench.next_call();
  bench.main.synchronize();
  CHECK(bench.used() >= kBytes);
  gate.open();
  bench.call_when_idle();
  CHECK(bench.used() == 0);
}

TEST_CASE("a destroyed stream does not delay the free of memory that it used") {
  Pooled bench;
  auto loader = std::make_unique<Stream>(bench.ordered, StreamOptions{.name = "loader"});
  void* const memory = bench.allocator.allocate(kBytes, bench.main);
  bench.allocator.record_use(memory, *loader);
  loader.reset();
  bench.allocator.deallocate(memory);
  bench.main.synchronize();
  CHECK(bench.used() == 0);
}

TEST_CASE("a delayed free goes to the driver's pool once polls find its uses complete") {
  UsedElsewhere bench;
  bench.gate.open();
  bench.device.synchronize();  // OrderedDevice does not see this
  bench.next_call();
  bench.device.synchronize();
  CHECK(bench.used() == 0);
}

TEST_CASE("before a request fails, it waits for delayed frees into the driver's pool") {
  Pooled bench;
  Stream spinning{bench.ordered, {.name = "spinning"}, true};
  constexpr std::size_t kMost = std::size_t{900} << 20;
  void* const memory = bench.allocator.allocate(kMost, bench.main);
  bench.allocator.record_use(memory, spinning);
  bench.device.launch(test::fixed_kernel("spin", std::chrono::milliseconds{5}), spinning.handle());
  bench.allocator.deallocate(memory);
  CHECK(bench.allocator.allocate(kMost, bench.main) != nullptr);
}

TEST_CASE("memory whose use another thread saw complete is freed without a wait or a race") {
  Watched bench;
  void* const memory = bench.allocator.allocate(kBytes, bench.copy);
  bench.main.wait_stream(bench.copy);
  busy(bench, bench.main, memory, kBytes);
  const Point used = bench.main.mark();
  const auto other = bench.other_synchronizes();
  const std::uint64_t waits = bench.device.calls(Call::wait);
  bench.allocator.deallocate(memory, used);
  CHECK(bench.device.calls(Call::wait) == waits);
  CHECK(bench.checking.races().empty());
  other->join();
}

TEST_CASE("a delayed free whose uses another thread saw complete causes no race") {
  Watched bench;
  Stream spinning{bench.ordered, {.name = "spinning"}, true};
  void* const memory = bench.allocator.allocate(kBytes, bench.main);
  spinning.wait_stream(bench.main);
  busy(bench, spinning, memory, kBytes);
  bench.allocator.record_use(memory, spinning);
  bench.allocator.deallocate(memory);  // an independent stream cannot be waited for
  const auto other = bench.other_synchronizes();
  bench.next_call();
  bench.device.synchronize();
  CHECK(bench.used() == 0);
  CHECK(bench.checking.races().empty());
  other->join();
}

TEST_CASE("a free into the driver's pool that fails leaves the block live") {
  Pooled bench;
  void* const memory = bench.allocator.allocate(kBytes, bench.main);
  for (std::uint64_t number = 1; number <= 2;
       ++number) {  // 1: the points; 2: the entry among kept blocks
    CAPTURE(number);
    const test::FailingHostMemory fails{number};
    CHECK_THROWS_AS(bench.allocator.deallocate(memory), std::bad_alloc);
  }
  CHECK(bench.allocator.is_live(memory));
  CHECK(bench.allocator.statistics().bytes.allocated.current == kBytes);
  bench.allocator.deallocate(memory);
  CHECK_FALSE(bench.allocator.is_live(memory));
  bench.call_when_idle();
  CHECK(bench.used() == 0);
}

TEST_CASE("a free into the driver's pool that an observer refuses leaves the block live") {
  struct Refusing final : AllocationObserver {
    void allocated(const AllocationEvent&) override {}
    void freed(const FreeEvent&) override {
      if (refuses) throw std::bad_alloc{};
    }
    void segment_acquired(void*, std::size_t) override {}
    void segment_released(void*, std::size_t) override {}
    bool refuses = true;
  } observer;
  Pooled bench;
  bench.allocator.observe(&observer);
  void* const memory = bench.allocator.allocate(kBytes, bench.main);
  CHECK_THROWS_AS(bench.allocator.deallocate(memory), std::bad_alloc);
  CHECK(bench.allocator.is_live(memory));
  CHECK(bench.allocator.statistics().bytes.allocated.current == kBytes);
  observer.refuses = false;
  bench.allocator.deallocate(memory);
  CHECK(bench.allocator.statistics().bytes.allocated.current == 0);
}
