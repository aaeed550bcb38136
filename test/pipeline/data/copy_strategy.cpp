#include "millrace/pipeline/data/copy_strategy.hpp"

#include <stdexcept>
#include <vector>

#include "millrace/text/parse_enum.hpp"
#include "test/support/allocators.hpp"
#include "test/support/catch.hpp"
#include "test/support/sizes.hpp"

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Keeps the points that the last free waits for.
class LastFree final : public AllocationObserver {
 public:
  void freed(const FreeEvent& event) override {
    points.assign(event.points.begin(), event.points.end());
  }
  std::vector<Point> points;
};

struct CopyBench : Bench {
  explicit CopyBench(CopyMethod method, std::size_t depth = 2, std::size_t memory = 64 * MiB)
      : Bench(memory), strategy(CopyStrategy::make(method, setting(method, depth))) {}

  CopyEnvironment setting(CopyMethod method, std::size_t depth) {
    Allocator& of_batches = traits_of(method).uses_driver_pool ? static_cast<Allocator&>(pool)
                                                               : static_cast<Allocator&>(memory);
    return {.allocator = of_batches, .main = main, .copy = copy, .depth = depth};
  }
  DeviceBatch copy_batch(std::size_t bytes) {
    const HostBatch host{host_memory, std::vector<std::size_t>{bytes}, copy};
    return strategy->copy(host.tensors());
  }
  [[nodiscard]] std::size_t allocated() { return memory.statistics().bytes.allocated.current; }

  CachingAllocator memory{ordered, source, Policy::millrace()};
  CachingAllocator host_memory{ordered, pinned, Policy::pinned()};
  DriverAllocator pool{ordered};
  std::unique_ptr<CopyStrategy> strategy;
};

/// A bench that keeps in `last` the points of the last free of batch memory.
struct WatchedBench : CopyBench {
  explicit WatchedBench(CopyMethod method) : CopyBench(method) { memory.observe(&last); }
  ~WatchedBench() { memory.observe(nullptr); }

  LastFree last;
};

std::vector<StreamId> streams_of(const std::vector<Point>& points) {
  std::vector<StreamId> streams;
  for (const Point point : points) streams.push_back(point.stream);
  std::sort(streams.begin(), streams.end());
  return streams;
}

}  // namespace

TEST_CASE("a copy strategy is found by its name, and the list has every name") {
  for (const CopyMethod method : kCopyMethods) {
    CHECK(text::parse_enum("copy strategy", to_string(method), kCopyMethods) == method);
    CHECK_THAT(copy_strategy_names(), ContainsSubstring(std::string{to_string(method)}));
  }
}

TEST_CASE("a ring with a depth of 0 is refused") {
  CopyBench bench{CopyMethod::ring};
  CHECK_THROWS_AS(CopyStrategy::make(CopyMethod::ring, bench.setting(CopyMethod::ring, 0)),
                  std::invalid_argument);
}

TEST_CASE("a side-stream batch is freed after the copy stream and after main") {
  WatchedBench bench{CopyMethod::side_stream};
  DeviceBatch batch = bench.copy_batch(MiB);
  batch.hand_to(bench.main);
  batch.release();
  std::vector<StreamId> both{bench.copy.id(), bench.main.id()};
  std::sort(both.begin(), both.end());
  CHECK(streams_of(bench.last.points) == both);
}

TEST_CASE("an in-place batch is freed after main alone, which has waited for the copy") {
  WatchedBench bench{CopyMethod::in_place};
  DeviceBatch batch = bench.copy_batch(MiB);
  batch.hand_to(bench.main);
  batch.release();
  CHECK(streams_of(bench.last.points) == std::vector<StreamId>{bench.main.id()});
}

TEST_CASE("an in-place batch that was never handed to main is also freed after its copy") {
  WatchedBench bench{CopyMethod::in_place};
  bench.copy_batch(MiB).release();
  CHECK(streams_of(bench.last.points).size() == 2);
}

TEST_CASE("a precise batch is freed after the marker of its last use, not after main's tail") {
  WatchedBench bench{CopyMethod::precise};
  DeviceBatch batch = bench.copy_batch(MiB);
  batch.hand_to(bench.main);
  const Point marker = bench.main.mark();
  batch.last_used(marker);
  static_cast<void>(bench.main.mark());
  batch.release();
  CHECK(bench.last.points == std::vector<Point>{marker});
}

TEST_CASE("a batch that is destroyed without a release frees its memory") {
  const CopyMethod method =
      GENERATE(CopyMethod::side_stream, CopyMethod::in_place, CopyMethod::precise);
  CopyBench bench{method};
  {
    const DeviceBatch batch = bench.copy_batch(MiB);
    CHECK(bench.allocated() == MiB);
  }
  CHECK(bench.allocated() == 0);
}

TEST_CASE("a moved batch keeps its memory, and a move onto a batch frees the old memory") {
  CopyBench bench{CopyMethod::side_stream};
  DeviceBatch batch = bench.copy_batch(MiB);
  DeviceBatch other = std::move(batch);
  CHECK(other.tensors().size() == 1);
  batch = bench.copy_batch(2 * MiB);
  CHECK(bench.allocated() == 3 * MiB);
  other = std::move(batch);
  CHECK(bench.allocated() == 2 * MiB);
  other.release();
  CHECK(bench.allocated() == 0);
}

TEST_CASE("empty tensors of a batch take no memory and no copy") {
  const CopyMethod method = GENERATE(from_range(kCopyMethods));
  CopyBench bench{method};
  const std::uint64_t copies = bench.device.calls(Call::copy);
  const HostBatch host{bench.host_memory, std::vector<std::size_t>{0, 1000, 0}, bench.copy};
  const DeviceBatch batch = bench.strategy->copy(host.tensors());
  REQUIRE(batch.tensors().size() == 3);
  CHECK(batch.tensors()[0].data == nullptr);
  CHECK(batch.tensors()[1].data != nullptr);
  CHECK(batch.tensors()[2].bytes == 0);
  CHECK(bench.device.calls(Call::copy) - copies == 1);
}

TEST_CASE("a ring keeps its slots, which also serve batches that are 25% larger") {
  CopyBench bench{CopyMethod::ring};
  for (int round = 0; round < 3; ++round) {
    DeviceBatch first = bench.copy_batch(MiB);
    DeviceBatch second = bench.copy_batch(MiB);
  }
  const std::size_t two_slots = bench.allocated();
  CHECK(two_slots > 2 * MiB);
  const std::uint64_t allocations = bench.memory.statistics().counts.allocations;
  bench.copy_batch(MiB + MiB / 4).release();
  CHECK(bench.memory.statistics().counts.allocations == allocations);
  CHECK(bench.allocated() == two_slots);
}

TEST_CASE("a ring replaces a slot that is too small with a larger slot") {
  CopyBench bench{CopyMethod::ring, 1};
  bench.copy_batch(MiB).release();
  const std::size_t small = bench.allocated();
  bench.copy_batch(4 * MiB).release();
  CHECK(bench.allocated() >= 4 * MiB * 13 / 10);
  CHECK(bench.allocated() < 4 * MiB * 13 / 10 + small);
  const std::uint64_t allocations = bench.memory.statistics().counts.allocations;
  for (int round = 0; round < 5; ++round) bench.copy_batch(5 * MiB).release();
  CHECK(bench.memory.statistics().counts.allocations == allocations);
}

TEST_CASE("a ring refuses a batch while all slots are in use, and accepts it after a release") {
  CopyBench bench{CopyMethod::ring, 2};
  DeviceBatch first = bench.copy_batch(MiB);
  DeviceBatch second = bench.copy_batch(MiB);
  CHECK_THROWS_AS(bench.copy_batch(MiB), std::logic_error);
  first.release();
  CHECK_NOTHROW(bench.copy_batch(MiB).release());
}

TEST_CASE("a copy into a slot waits for the slot's last reader, not for main's tail") {
  CopyBench bench{CopyMethod::ring, 1};
  DeviceBatch batch = bench.copy_batch(MiB);
  batch.hand_to(bench.main);
  batch.release();
  const std::uint64_t before = bench.device.calls(Call::record);
  Operation later{"later", {}, {}, {}, {}};
  later.cost.fixed = std::chrono::milliseconds{50};
  bench.device.launch(later, bench.main.handle());
  DeviceBatch next = bench.copy_batch(MiB);
  CHECK(bench.device.calls(Call::record) - before == 1);  // the marker of the copy itself
  bench.copy.synchronize();
  CHECK(bench.machine.now() < std::chrono::milliseconds{50});
}

TEST_CASE("driver-async batches are memory of the driver's pool") {
  CopyBench bench{CopyMethod::driver_async};
  DeviceBatch batch = bench.copy_batch(MiB);
  CHECK(bench.device.pool_info().used >= MiB);
  CHECK(bench.allocated() == 0);
  batch.hand_to(bench.main);
  batch.release();
  bench.main.synchronize();
  CHECK(bench.device.pool_info().used == 0);
}

TEST_CASE("a batch that runs out of memory leaks nothing, and the next batch is copied") {
  const CopyMethod method = GENERATE(CopyMethod::side_stream, CopyMethod::in_place,
                                     CopyMethod::precise, CopyMethod::ring);
  CopyBench bench{method};
  const HostBatch large{bench.host_memory, std::vector<std::size_t>{MiB, 100 * MiB}, bench.copy};
  CHECK_THROWS_AS(bench.strategy->copy(large.tensors()), out_of_memory);
  CHECK(bench.allocated() == 0);
  DeviceBatch batch = bench.copy_batch(MiB);
  batch.hand_to(bench.main);
  CHECK(batch.tensors().size() == 1);
}
