#include <algorithm>
#include <cmath>
#include <random>

#include "millrace/device/fault.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using millrace::test::Bench;
using millrace::test::BenchData;
using millrace::test::MiB;

namespace {

struct SegmentLog final : AllocationObserver {
  void segment_acquired(void*, std::size_t bytes) override { acquired.push_back(bytes); }
  void segment_released(void*, std::size_t bytes) override { released.push_back(bytes); }
  std::vector<std::size_t> acquired, released;
};

/// A policy with segments of `bytes` bytes, as on a device that cannot map memory.
Policy segments_of(std::size_t bytes) {
  Policy policy = Policy::millrace();
  policy.large_segment_least = policy.large_segment_most = bytes;
  policy.growable_ranges = false;
  return policy;
}

}  // namespace

TEST_CASE("the torch preset takes segments of PyTorch's sizes") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  SegmentLog log;
  allocator.observe(&log);
  (void)allocator.allocate(1, bench.main);
  (void)allocator.allocate(1 * MiB, bench.main);
  (void)allocator.allocate(1 * MiB, bench.main);  // the first segment lacks 512 bytes
  (void)allocator.allocate(1 * MiB + 1, bench.main);
  (void)allocator.allocate(10 * MiB, bench.main);  // from the rest of the 20 MiB segment
  (void)allocator.allocate(11 * MiB + 1, bench.main);
  CHECK(log.acquired == std::vector<std::size_t>{2 * MiB, 2 * MiB, 20 * MiB, 12 * MiB});
}

TEST_CASE("sizes are rounded as PyTorch rounds them") {
  Policy policy = Policy::torch();
  CHECK(policy.round(1) == 512);
  CHECK(policy.round(512) == 512);
  CHECK(policy.round(513) == 1024);
  policy.power2_divisions.fill(4);
  CHECK(policy.round(1200) == 1536);  // too small for divisions: a multiple of 512
  CHECK(policy.round(5000) == 5120);  // between 4096 and 8192 in steps of 1024
  CHECK(policy.round(8192) == 8192);
}

TEST_CASE("reserved memory stays within the limit, and a free lets the next request through") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch(), {.limit = 64 * MiB}};
  void* held = allocator.allocate(40 * MiB, bench.main);
  CHECK_THROWS_AS(allocator.allocate(40 * MiB, bench.main), out_of_memory);
  CHECK(allocator.statistics().bytes.reserved.peak <= 64 * MiB);
  allocator.deallocate(held);
  // Only giving the cached segment back makes room for one of another size.
  CHECK(allocator.allocate(50 * MiB, bench.main) != nullptr);
  CHECK(allocator.statistics().counts.retries == 2);
  allocator.check_invariants();
}

TEST_CASE("a request that would use the headroom fails") {
  Bench bench{256 * MiB};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch(), {.headroom = 128 * MiB}};
  (void)allocator.allocate(100 * MiB, bench.main);
  CHECK_THROWS_AS(allocator.allocate(60 * MiB, bench.main), out_of_memory);
}

TEST_CASE("callbacks run before a request fails, and may free memory") {
  for (const Policy& policy : {Policy::torch(), Policy::millrace()}) {
    Bench bench;
    CachingAllocator allocator{bench.ordered, bench.source, policy, {.limit = 64 * MiB}};
    void* cache = allocator.allocate(50 * MiB, bench.main);
    std::size_t asked = 0;
    allocator.on_out_of_memory([&](std::size_t bytes) {
      asked = bytes;
      if (cache == nullptr) return false;
      allocator.deallocate(std::exchange(cache, nullptr));
      return true;
    });
    CHECK(allocator.allocate(40 * MiB, bench.main) != nullptr);
    CHECK(asked == 40 * MiB);
    CHECK_THROWS_AS(allocator.allocate(50 * MiB, bench.main), out_of_memory);
  }
}

TEST_CASE("under pressure blocks of several streams are waited for and merged") {
  Bench bench{64 * MiB};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  void* left = allocator.allocate(20 * MiB, bench.main);
  void* right = allocator.allocate(20 * MiB, bench.copy);
  allocator.deallocate(left);
  allocator.deallocate(right);
  CHECK(allocator.allocate(60 * MiB, bench.main) != nullptr);
  allocator.check_invariants();
}

TEST_CASE("the picture of a failed request has the reserved bytes and the device's size") {
  Bench bench{64 * MiB};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch()};
  void* stranded = allocator.allocate(20 * MiB, bench.copy);
  void* pin = allocator.allocate(10 * MiB, bench.copy);
  allocator.deallocate(stranded);
  try {
    (void)allocator.allocate(60 * MiB, bench.main);
    FAIL("more than there is was given out");
  } catch (const out_of_memory& error) {
    CHECK(error.picture().reserved == 12 * MiB - 2 * MiB);
    CHECK(error.picture().device_total == 64 * MiB);
  }
  allocator.deallocate(pin);
}

TEST_CASE("an allocator restored from a layout makes the decisions of the original") {
  Bench bench;
  CachingAllocator first{bench.ordered, bench.source, Policy::torch()};
  void* a = first.allocate(3 * MiB, bench.main);
  void* b = first.allocate(5 * MiB, bench.main);
  (void)first.allocate(2000, bench.main);
  first.deallocate(a);
  auto layout = first.layout();
  for (auto& segment : layout) segment.stream = bench.main;

  class Elsewhere final : public SegmentSource {
    void* acquire(std::size_t) override {
      throw DeviceError{ErrorCode::out_of_memory, "acquire", "nothing here"};
    }
    void release(void*, std::size_t) override {}
    std::size_t granularity() const override { return 2 * MiB; }
  } elsewhere;
  CachingAllocator second{bench.ordered, elsewhere, Policy::torch()};
  second.restore(layout);
  second.check_invariants();
  CHECK(second.block_size(b) == 5 * MiB);
  CHECK(second.allocate(3 * MiB, bench.main) == a);
  CHECK(first.allocate(3 * MiB, bench.main) == a);
  CHECK_THROWS_AS(second.restore(layout), std::logic_error);
}

TEST_CASE("a restored block has no tag, even if its record belonged to a tagged block") {
  Bench bench;
  CachingAllocator first{bench.ordered, bench.source, Policy::torch()};
  void* const live = first.allocate(3 * MiB, bench.main);
  auto layout = first.layout();
  for (auto& segment : layout) segment.stream = bench.main;

  CachingAllocator second{bench.ordered, bench.source, Policy::torch()};
  const Tag tag = second.tag("batches");
  second.deallocate(second.allocate(1 * MiB, bench.main, tag));
  second.trim(0);
  second.restore(layout);
  const auto of_batches = [&] {
    for (const ShareStatistics& each : second.statistics().tags) {
      if (each.name == "batches") return each.allocated.current;
    }
    throw std::logic_error{"the tag is not known"};
  };
  CHECK(of_batches() == 0);
  second.deallocate(live);
  CHECK(of_batches() == 0);
}

TEST_CASE("threads that grow at once stay within the limit together") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::torch(), {.limit = 64 * MiB}};
  std::vector<std::unique_ptr<Executor::Task>> tasks;
  int served = 0;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(bench.machine.executor().spawn("grower", [&] {
      try {
        (void)allocator.allocate(20 * MiB, bench.main);
        ++served;
      } catch (const out_of_memory&) {
      }
    }));
  }
  for (auto& task : tasks) task->join();
  CHECK(served == 3);
  CHECK(allocator.statistics().bytes.reserved.peak <= 64 * MiB);
}

TEST_CASE("a small request is served from a large segment if no other memory is left") {
  Bench bench{16 * MiB};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  allocator.deallocate(allocator.allocate(16 * MiB, bench.main));
  void* const large = allocator.allocate(4 * MiB, bench.main);
  REQUIRE(allocator.statistics().bytes.reserved.current == 16 * MiB);
  void* const small = allocator.allocate(3000, bench.main);
  CHECK(small != nullptr);
  allocator.check_invariants();
  allocator.deallocate(small);
  allocator.deallocate(large);
  bench.ordered.synchronize();
  CHECK(allocator.trim() == 16 * MiB);
}

TEST_CASE("the first allocations take less time in driver calls than with the torch preset") {
  const std::size_t memory =  // with pages of 8, 16 and 32 MiB
      static_cast<std::size_t>(GENERATE(8, 24, 79)) << 30;
  const std::size_t count = GENERATE(1'000, 10'000);
  const std::size_t largest = static_cast<std::size_t>(GENERATE(4, 6)) << 20;
  CAPTURE(memory, count, largest);
  const auto time_of = [&](const Policy& policy) {
    Bench bench{memory, {}, BenchData::none};
    CachingAllocator allocator{bench.ordered, bench.source, policy};
    std::mt19937_64 random{7};
    std::uniform_real_distribution<double> log{std::log(512.0),
                                               std::log(static_cast<double>(largest))};
    const Nanoseconds began = bench.machine.now();
    for (std::size_t i = 0; i < count; ++i) {
      static_cast<void>(
          allocator.allocate(static_cast<std::size_t>(std::exp(log(random))), bench.main));
    }
    return bench.machine.now() - began;
  };
  CHECK(time_of(Policy::millrace()) < time_of(Policy::torch()));
}

TEST_CASE(
    "a segment of the small pool is 2 MiB at first, and later at most an eighth of the pool") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  SegmentLog log;
  allocator.observe(&log);
  for (int i = 0; i < 400; ++i) static_cast<void>(allocator.allocate(MiB, bench.main));
  std::size_t pool = 0;
  for (const std::size_t segment : log.acquired) {
    CHECK(segment <= std::max(2 * MiB, std::min(pool / 8, 32 * MiB)));
    pool += segment;
  }
  CHECK(pool <= 450 * MiB);
  CHECK(log.acquired.size() <= 50);  // with 2 MiB each: 200
  allocator.check_invariants();
  allocator.observe(nullptr);
}

TEST_CASE("a small request is served if only the smallest segment fits within the limit") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 66 * MiB}};
  for (int i = 0; i < 66; ++i) CHECK(allocator.allocate(MiB, bench.main) != nullptr);
  CHECK(allocator.statistics().bytes.reserved.current == 66 * MiB);
  CHECK(allocator.statistics().counts.retries == 0);
}

TEST_CASE("with small pages, requests of up to half a segment share segments") {
  Bench bench{std::size_t{8} << 30};  // pages of 8 MiB, segments of 16 MiB
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  SegmentLog log;
  allocator.observe(&log);
  const auto ask = [&](std::size_t bytes) {
    static_cast<void>(allocator.allocate(bytes, bench.main));
  };
  for (int i = 0; i < 5; ++i) ask(3 * MiB);
  CHECK(log.acquired == std::vector<std::size_t>{16 * MiB});
  CHECK(bench.device.calls(Call::map) == 0);
  ask(8 * MiB);
  CHECK(log.acquired == std::vector<std::size_t>{16 * MiB, 16 * MiB});
  ask(9 * MiB);  // more than half a segment: a range
  CHECK(log.acquired == std::vector<std::size_t>{16 * MiB, 16 * MiB, 16 * MiB});
  CHECK(bench.device.calls(Call::map) == 1);
  allocator.check_invariants();
  allocator.observe(nullptr);
}

TEST_CASE("after the first free, no new shared segment is acquired") {
  Bench bench{std::size_t{8} << 30};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  SegmentLog log;
  allocator.observe(&log);
  allocator.deallocate(allocator.allocate(3 * MiB, bench.main));
  for (int i = 0; i < 6; ++i) static_cast<void>(allocator.allocate(3 * MiB, bench.main));
  CHECK(log.acquired == std::vector<std::size_t>{16 * MiB, 8 * MiB});
  CHECK(bench.device.calls(Call::map) == 1);
  allocator.check_invariants();
  allocator.observe(nullptr);
}

TEST_CASE("if the limit leaves no room for a shared segment, a range grows instead") {
  Bench bench{std::size_t{8} << 30};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace(), {.limit = 24 * MiB}};
  CHECK(allocator.allocate(8 * MiB, bench.main) != nullptr);
  CHECK(allocator.allocate(8 * MiB, bench.main) != nullptr);  // fills the shared segment
  CHECK(allocator.allocate(8 * MiB, bench.main) != nullptr);
  CHECK(allocator.statistics().bytes.reserved.current == 24 * MiB);
  CHECK(bench.device.calls(Call::map) == 1);
}

TEST_CASE("before a range grows, complete shared segments are given back") {
  Bench bench{std::size_t{8} << 30};
  CachingAllocator allocator{bench.ordered, bench.source, Policy::millrace()};
  const bool in_use = GENERATE(false, true);
  CAPTURE(in_use);
  void* const shared = allocator.allocate(8 * MiB, bench.main);
  if (in_use) test::busy(bench, bench.main, shared, 8 * MiB);
  allocator.deallocate(shared);
  bench.ordered.mark(bench.main);
  if (!in_use) bench.ordered.synchronize();
  static_cast<void>(allocator.allocate(32 * MiB, bench.copy));
  CHECK(allocator.statistics().bytes.reserved.current == (in_use ? 48 : 32) * MiB);
  allocator.check_invariants();
}

TEST_CASE("a new segment is smaller by the complete free blocks that are too small") {
  Bench bench{std::size_t{8} << 30};
  CachingAllocator allocator{bench.ordered, bench.source, segments_of(256 * MiB)};
  SegmentLog log;
  allocator.observe(&log);
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocator.allocate(16 * MiB, bench.main));
  const bool in_use = GENERATE(false, true);
  const bool two = GENERATE(false, true);
  const bool large = GENERATE(false, true);
  if (in_use) test::busy(bench, bench.main, blocks[0], 256 * MiB);
  allocator.deallocate(blocks[0]);
  if (two) allocator.deallocate(blocks[2]);
  if (!in_use) {
    bench.ordered.mark(bench.main);
    bench.ordered.synchronize();
  }
  static_cast<void>(allocator.allocate(large ? 34 * MiB : 18 * MiB, bench.copy));
  const std::size_t less = in_use || large ? 0 : two ? 32 * MiB : 16 * MiB;
  CHECK(log.acquired == std::vector<std::size_t>{256 * MiB, 256 * MiB - less});
  allocator.check_invariants();
  allocator.observe(nullptr);
}

TEST_CASE("a complete segment that is too small is given back before a new one is acquired") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, segments_of(2 * MiB)};
  SegmentLog log;
  allocator.observe(&log);
  const bool in_use = GENERATE(false, true);
  void* const small = allocator.allocate(16 * MiB, bench.main);
  if (in_use) test::busy(bench, bench.main, small, 16 * MiB);
  allocator.deallocate(small);
  bench.ordered.mark(bench.main);
  if (!in_use) bench.ordered.synchronize();
  static_cast<void>(allocator.allocate(32 * MiB, bench.copy));
  CHECK(log.acquired == std::vector<std::size_t>{16 * MiB, 32 * MiB});
  CHECK(log.released == (in_use ? std::vector<std::size_t>{} : std::vector{16 * MiB}));
  allocator.check_invariants();
  allocator.observe(nullptr);
}

TEST_CASE("a request grows if a segment cannot be given back") {
  Bench bench;
  CachingAllocator allocator{bench.ordered, bench.source, segments_of(2 * MiB)};
  allocator.deallocate(allocator.allocate(16 * MiB, bench.main));
  bench.ordered.mark(bench.main);
  bench.ordered.synchronize();
  FaultInjector faults{bench.device};
  faults.fail(Call::free, 1, ErrorCode::unknown);
  CHECK(allocator.allocate(32 * MiB, bench.main) != nullptr);
  CHECK(faults.injected() == 1);
  allocator.check_invariants();
  CHECK(allocator.statistics().bytes.reserved.current == 48 * MiB);
}

TEST_CASE("before a request fails, the host waits for memory that no stream can wait for") {
  Bench bench{16 * MiB};
  const bool host_memory = GENERATE(false, true);
  Policy policy = host_memory ? Policy::pinned() : Policy::millrace();
  policy.large_segment_least = policy.large_segment_most = 0;
  policy.medium_limit = 0;
  policy.growable_ranges = false;
  CachingAllocator allocator{bench.ordered, bench.source, policy};
  Stream spinning{bench.ordered, {.name = "spinning"}, true};
  void* const pin = allocator.allocate(6 * MiB, bench.main);  // its segment cannot be given back
  void* const block = allocator.allocate(10 * MiB, spinning);
  allocator.deallocate(block);
  void* const kept = allocator.allocate(2 * MiB, spinning);
  bench.device.launch({.name = "spin",
                       .views = {},
                       .cost = {.fixed = std::chrono::milliseconds{5}},
                       .host = {},
                       .cuda = {}},
                      spinning.handle());
  void* const rest = allocator.allocate(8 * MiB, spinning);
  allocator.deallocate(rest);
  CHECK(allocator.allocate(8 * MiB, bench.main) == rest);
  static_cast<void>(pin);
  static_cast<void>(kept);
}

TEST_CASE("a request that fails while another stream is captured throws out_of_memory") {
  Bench bench{16 * MiB};
  const bool host_memory = GENERATE(false, true);
  CachingAllocator allocator{bench.ordered,
                             host_memory ? static_cast<SegmentSource&>(bench.pinned) : bench.source,
                             host_memory ? Policy::pinned() : Policy::millrace(),
                             {.limit = 16 * MiB}};
  const StreamHandle raw = bench.device.create_stream();
  const StreamHandle captured = bench.device.create_stream();
  allocator.deallocate(allocator.allocate(15 * MiB, raw));
  bench.device.set_capture_status(captured, CaptureStatus::active);
  CHECK_THROWS_AS(allocator.allocate(14 * MiB, bench.main), out_of_memory);
  allocator.check_invariants();
  bench.device.set_capture_status(captured, CaptureStatus::none);
  CHECK(allocator.allocate(14 * MiB, bench.main) != nullptr);
}

TEST_CASE("the driver may give a segment's address out again before its release has returned") {
  class Eager final : public SegmentSource {
   public:
    void* acquire(std::size_t) override { return reinterpret_cast<void*>(std::uintptr_t{1} << 30); }
    void release(void*, std::size_t) override {
      if (meanwhile) std::exchange(meanwhile, nullptr)();
    }
    std::size_t granularity() const override { return 2 * MiB; }
    std::function<void()> meanwhile;
  } source;
  Bench bench;
  CachingAllocator allocator{bench.ordered, source, Policy::torch()};
  allocator.deallocate(allocator.allocate(12 * MiB, bench.main));
  void* other_thread = nullptr;
  source.meanwhile = [&] { other_thread = allocator.allocate(14 * MiB, bench.main); };
  CHECK(allocator.trim() == 12 * MiB);
  allocator.check_invariants();
  CHECK(allocator.block_size(other_thread) == 14 * MiB);
  CHECK(allocator.statistics().bytes.reserved.current == 14 * MiB);
}
