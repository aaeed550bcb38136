// A GPU's memory as PyTorch uses it: pools, graphs, statistics, and the hooks of a pluggable
// allocator.

#include "millrace/interop/torch_memory.hpp"

#include <map>
#include <thread>
#include <vector>

#include "millrace.h"
#include "millrace/interop/torch_hooks.hpp"
#include "test/interop/bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/threaded_device.hpp"

namespace millrace::test {
namespace {

constexpr TorchPoolId kMemoryPool{0, 1};

/// A virtual GPU of 1 GiB with PyTorch's memory, which is its default memory on this thread.
struct TorchBench : PlainBench {
  explicit TorchBench(const VirtualMachine::Options& schedule = {}, const char* settings = "")
      : PlainBench(schedule), memory(gpu, 0, TorchSettings::parse(settings)) {}

  [[nodiscard]] void* get(std::size_t bytes, CUstream_st* stream) {
    void* const address = memory.allocate(bytes, {stream, true}, nullptr);
    checking.allocated(address, bytes, gpu, {stream});
    return address;
  }
  void put(void* address) {
    checking.freed(address);
    memory.deallocate(address, nullptr);
  }
  [[nodiscard]] std::size_t reserved() {
    return static_cast<std::size_t>(memory.statistics().reserved_bytes.all.current);
  }

  TorchMemory memory;
  DefaultMemoryScope scope{memory.memory()};
};

auto only(CUstream_st* stream) {
  return [stream](CUstream_st* asked) { return asked == stream; };
}

}  // namespace

TEST_CASE("the memory of one step's stream serves the stream of the next step") {
  const std::uint64_t schedule = GENERATE(range(0, 6));
  TorchBench bench{schedule_of(schedule)};
  CUstream_st* const main = bench.create_stream();
  std::vector<CUstream_st*> streams;
  for (int i = 0; i < 8; ++i) streams.push_back(bench.create_stream());
  std::size_t after_first = 0;
  for (int step = 0; step < 24; ++step) {
    CUstream_st* const pack = streams[static_cast<std::size_t>(step) % streams.size()];
    void* const packed = bench.get(100 * MiB, pack);
    bench.work(packed, 100 * MiB, pack);
    bench.order(pack, main);
    bench.work(packed, 100 * MiB, main);
    bench.memory.record_use(packed, main);
    bench.put(packed);
    bench.gpu.synchronize();
    if (step == 1) after_first = bench.reserved();
  }
  CHECK(bench.reserved() == after_first);
  bench.check_order();
}

TEST_CASE("memory that a recorded stream uses is not reused early") {
  const std::uint64_t seed = GENERATE(range(1, 9));
  TorchBench bench{adversarial(seed)};
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const copy = bench.create_stream();
  for (int step = 0; step < 6; ++step) {
    void* const batch = bench.get(4 * MiB, copy);
    bench.work(batch, 4 * MiB, copy);
    bench.order(copy, main);
    bench.work(batch, 4 * MiB, main);
    bench.memory.record_use(batch, main);
    bench.put(batch);
  }
  bench.check_order();
  CHECK(bench.memory.statistics().allocation.all.current == 0);
}

TEST_CASE("a pool serves the requests that are routed to it, and its memory serves no others") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  CUstream_st* const other = bench.create_stream();
  bench.memory.use_pool(kMemoryPool);
  bench.memory.begin_route(kMemoryPool, main, only(main));
  CHECK(bench.memory.pool_uses(kMemoryPool) == 2);
  void* const inside = bench.get(8 * MiB, main);
  void* const outside = bench.get(8 * MiB, other);
  bench.memory.end_route(kMemoryPool);
  void* const after = bench.get(8 * MiB, main);
  CHECK(bench.memory.pool_holds_only(kMemoryPool, {inside}));
  CHECK_FALSE(bench.memory.pool_holds_only(kMemoryPool, {inside, outside}));
  bench.put(inside);
  CHECK(bench.memory.pool_holds_only(kMemoryPool, {}));
  void* const again = bench.get(8 * MiB, main);  // the pool's free memory does not serve this
  CHECK(again != inside);
  std::size_t of_pool = 0;
  for (const TorchSegment& segment : bench.memory.segments(kMemoryPool)) of_pool += segment.bytes;
  CHECK(of_pool >= 8 * MiB);
  CHECK(bench.memory.statistics().reserved_by_pool[kMemoryPool].all.current ==
        static_cast<std::int64_t>(of_pool));

  // A pool can give memory back while it is in use.
  CHECK(bench.memory.trim(kMemoryPool) == of_pool);
  CHECK(bench.memory.segments(kMemoryPool).empty());
  for (void* const address : {outside, after, again}) bench.put(address);
  bench.memory.release_pool(kMemoryPool);
  bench.memory.release_pool(kMemoryPool);
  CHECK(bench.memory.pool_uses(kMemoryPool) == 0);
  bench.memory.trim();
  CHECK(bench.reserved() == 0);
  CHECK_THROWS_AS(bench.memory.release_pool(kMemoryPool), std::invalid_argument);
  CHECK_THROWS_AS(bench.memory.end_route(kMemoryPool), std::invalid_argument);
  CHECK_THROWS_AS(bench.memory.set_no_split(kMemoryPool), std::invalid_argument);
}

TEST_CASE("among nested routes the newest one that accepts the stream wins") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  const TorchPoolId inner{0, 2};
  const auto everybody = [](CUstream_st*) { return true; };
  bench.memory.begin_route(kMemoryPool, main, everybody);
  bench.memory.begin_route(inner, main, everybody);
  void* const in_inner = bench.get(MiB, main);
  bench.memory.end_route(inner);
  void* const in_outer = bench.get(MiB, main);
  bench.memory.end_route(kMemoryPool);
  CHECK(bench.memory.pool_holds_only(inner, {in_inner}));
  CHECK(bench.memory.pool_holds_only(kMemoryPool, {in_outer}));
  bench.put(in_inner);
  bench.put(in_outer);
}

TEST_CASE("an unused pool gives its memory to a request that would fail otherwise") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  bench.memory.begin_route(kMemoryPool, main, only(main));
  void* const inside = bench.get(600 * MiB, main);
  bench.memory.end_route(kMemoryPool);
  CHECK_THROWS_AS(bench.memory.allocate(600 * MiB, {main, true}, nullptr), out_of_memory);
  CHECK(bench.memory.statistics().out_of_memory == 1);
  bench.put(inside);
  bench.memory.release_pool(kMemoryPool);
  void* const outside = bench.get(600 * MiB, main);
  CHECK(bench.memory.segments(kMemoryPool).empty());
  bench.put(outside);
}

TEST_CASE("a pool without splits gives each allocation its own segment") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  bench.memory.use_pool(kMemoryPool);
  bench.memory.set_no_split(kMemoryPool);
  bench.memory.begin_route(kMemoryPool, main, only(main));
  std::vector<void*> addresses;
  for (const std::size_t bytes : {std::size_t{1000}, MiB, 3 * MiB}) {
    addresses.push_back(bench.get(bytes, main));
    CHECK(bench.memory.segment_of(addresses.back()).first == addresses.back());
  }
  CHECK(bench.memory.segments(kMemoryPool).size() == 3);
  bench.put(addresses[2]);
  CHECK(bench.get(2 * MiB, main) == addresses[2]);
  CHECK(bench.memory.segments(kMemoryPool).size() == 3);
  bench.memory.end_route(kMemoryPool);
  for (void* const address : addresses) bench.put(address);
}

TEST_CASE("a captured stream gets memory of the pool that its graph keeps") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  bench.put(bench.get(16 * MiB, main));
  bench.memory.begin_route(kMemoryPool, main, only(main));
  bench.gpu.set_capture_status({main}, CaptureStatus::active);
  void* const first = bench.memory.allocate(16 * MiB, {main, true}, nullptr);
  bench.memory.deallocate(first, nullptr);
  void* const second = bench.memory.allocate(16 * MiB, {main, true}, nullptr);
  CHECK(second == first);  // the capture's own order suffices
  void* const output = bench.memory.allocate(MiB, {main, true}, nullptr);
  bench.gpu.set_capture_status({main}, CaptureStatus::none);
  bench.memory.end_route(kMemoryPool);
  CHECK(bench.memory.pool_holds_only(kMemoryPool, {second, output}));
  CHECK_FALSE(bench.memory.memory().device().capturing());
  bench.memory.deallocate(second, nullptr);
  const TorchStatistics now = bench.memory.statistics();
  CHECK(now.allocated_bytes.all.current == static_cast<std::int64_t>(MiB));
  bench.memory.trim();  // keeps the addresses of the graph, which may be launched again
  CHECK(bench.memory.statistics().reserved_by_pool.at(kMemoryPool).all.current >=
        static_cast<std::int64_t>(17 * MiB));
  bench.memory.deallocate(output, nullptr);
  bench.memory.release_pool(kMemoryPool);
  bench.memory.trim();
  CHECK(bench.reserved() == 0);
}

TEST_CASE("the fraction limits all pools together") {
  TorchBench bench{{}, "per_process_memory_fraction:0.25"};
  CUstream_st* const main = bench.create_stream();
  CHECK(bench.memory.fraction() == 0.25);
  void* const outside = bench.get(150 * MiB, main);
  bench.memory.begin_route(kMemoryPool, main, only(main));
  CHECK_THROWS_AS(bench.memory.allocate(150 * MiB, {main, true}, nullptr), out_of_memory);
  bench.put(outside);  // all free memory is given back for the pool
  void* const inside = bench.get(150 * MiB, main);
  CHECK(bench.reserved() <= 256 * MiB);
  bench.memory.end_route(kMemoryPool);
  bench.put(inside);
  bench.memory.set_fraction(1);
  bench.put(bench.get(400 * MiB, main));
  CHECK_THROWS_AS(bench.memory.set_fraction(0), std::invalid_argument);
}

TEST_CASE("statistics count requests by size, and resets start from the current values") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  void* const small = bench.get(1000, main);
  void* const large = bench.get(5 * MiB + 1, main);
  TorchStatistics now = bench.memory.statistics();
  CHECK(now.allocation.small.current == 1);
  CHECK(now.allocation.large.current == 1);
  CHECK(now.allocated_bytes.small.current == 1024);
  CHECK(now.requested_bytes.all.current == static_cast<std::int64_t>(5 * MiB + 1001));
  CHECK(now.reserved_bytes.small.current == static_cast<std::int64_t>(2 * MiB));
  CHECK(now.max_split_size == -1);
  bench.put(large);
  bench.memory.reset_peaks();
  bench.memory.reset_sums();
  now = bench.memory.statistics();
  CHECK(now.allocation.all.peak == 1);
  CHECK(now.allocation.all.allocated == 0);
  CHECK(now.allocation.all.freed == 0);
  CHECK(now.device_allocs == 0);
  bench.put(small);
  CHECK(bench.memory.statistics().allocation.all.freed == 1);
  CHECK_THROWS_AS(bench.memory.deallocate(small, nullptr), std::invalid_argument);
  CHECK_THROWS_AS(bench.memory.record_use(small, main), std::invalid_argument);
  CHECK(bench.memory.context(small) == nullptr);
}

TEST_CASE("allocations of concurrent threads are counted exactly") {
  ThreadedDevice device{std::size_t{1} << 28};
  TorchMemory memory{device, 0, {}};
  std::vector<CUstream_st*> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(static_cast<CUstream_st*>(device.create_stream().value));
  }
  std::vector<std::thread> threads;
  for (CUstream_st* const stream : streams) {
    threads.emplace_back([&, stream] {
      std::vector<void*> held;
      for (int i = 0; i < 200; ++i) {
        held.push_back(memory.allocate(std::size_t{1} << (10 + i % 12), {stream, true}, nullptr));
        if (i % 3 != 0) continue;
        memory.deallocate(held.front(), nullptr);
        held.erase(held.begin());
      }
      for (void* const address : held) memory.deallocate(address, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TorchStatistics now = memory.statistics();
  CHECK(now.allocation.all.allocated == 800);
  CHECK(now.allocation.all.freed == 800);
  CHECK(now.allocated_bytes.all.current == 0);
}

TEST_CASE("the hooks of a pluggable allocator use the same pools") {
  TorchBench bench;
  CUstream_st* const main = bench.create_stream();
  millrace_torch_init(1);
  void* const outside = millrace_torch_malloc(3 * MiB, 0, main);
  millrace_torch_begin_allocate_to_pool(0, kMemoryPool, only(main));
  void* const inside = millrace_torch_malloc(3 * MiB, 0, main);
  millrace_torch_end_allocate_to_pool(0, kMemoryPool);
  CHECK(bench.memory.pool_holds_only(kMemoryPool, {inside}));
  std::size_t bytes = 0;
  CHECK(millrace_torch_base_alloc(inside, &bytes) == bench.memory.segment_of(inside).first);
  CHECK(bytes == bench.memory.segment_of(inside).second);
  millrace_torch_record_stream(inside, bench.create_stream());
  millrace_torch_free(inside, 3 * MiB, 0, main);
  millrace_torch_free(outside, 3 * MiB, 0, main);
  millrace_torch_release_pool(0, kMemoryPool);
  bench.gpu.synchronize();
  millrace_torch_reset();
  CHECK(bench.reserved() == 0);
  CHECK(bench.memory.pool_uses(kMemoryPool) == 0);

  millrace_torch_free(outside, 3 * MiB, 0, main);
  CHECK(millrace_last_status() == MILLRACE_INVALID_ARGUMENT);
  CHECK(millrace_torch_malloc(-1, 0, main) == nullptr);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("-1 bytes"));
  millrace_torch_end_allocate_to_pool(0, kMemoryPool);
  CHECK_THAT(millrace_last_error(), Catch::Matchers::ContainsSubstring("no allocation goes"));
  CHECK(millrace_torch_base_alloc(&bench, &bytes) == nullptr);
}

TEST_CASE("the hooks allow the capture of a stream that never allocated, if they know it") {
  TorchBench bench;
  static CUstream_st* current;
  current = bench.create_stream();
  millrace_torch_set_current_stream([](int) { return current; });
  millrace_torch_begin_allocate_to_pool(0, kMemoryPool, only(current));
  bench.gpu.set_capture_status({current}, CaptureStatus::active);
  void* const inside = millrace_torch_malloc(MiB, 0, current);
  CHECK(inside != nullptr);
  bench.gpu.set_capture_status({current}, CaptureStatus::none);
  millrace_torch_end_allocate_to_pool(0, kMemoryPool);
  millrace_torch_free(inside, MiB, 0, current);
  millrace_torch_release_pool(0, kMemoryPool);
  millrace_torch_set_current_stream(nullptr);
}

}  // namespace millrace::test
