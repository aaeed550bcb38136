#include "millrace/observe/trace_snapshot.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/trace/pickle.hpp"
#include "millrace/observe/trace/write_snapshot.hpp"
#include "test/observe/trace_support.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/support/seed.hpp"

namespace {

using namespace millrace;
using namespace millrace::trace;

TorchSnapshot read_back(const TorchSnapshot& snapshot) {
  Warnings warnings;
  const TorchSnapshot read =
      read_torch_snapshot(read_pickle(write_torch_snapshot(snapshot), "file"), "file", warnings);
  CHECK(warnings.lines() == std::vector<std::string>{});
  return read;
}

void check_same(const TorchSnapshot& read, const TorchSnapshot& written) {
  CHECK(read.segments == written.segments);
  CHECK(read.traces == written.traces);
  CHECK(read.settings == written.settings);
}

/// Any snapshot that has the form of one: sizes and numbers of every length.
class RandomSnapshot {
 public:
  explicit RandomSnapshot(std::uint64_t seed) : random_(seed) {}

  TorchSnapshot make() {
    TorchSnapshot snapshot;
    for (std::uint64_t i = 1 + below(20); i > 0; --i) snapshot.segments.push_back(segment());
    // Without one that waits, a trace without completions is completed as it is read.
    TorchBlock& waits = snapshot.segments.front().blocks.front();
    waits.state = BlockState::pending_free;
    waits.requested = waits.bytes;
    for (std::uint64_t i = below(3); i > 0; --i) {
      auto& trace = snapshot.traces.emplace_back();
      for (std::uint64_t j = below(50); j > 0; --j) trace.push_back(event());
    }
    if (below(2) == 0) snapshot.settings.max_split_size = any() + 1;
    snapshot.settings.roundup_power2_divisions[below(16)] = 4;
    snapshot.settings.garbage_collection_threshold = 0.25 * static_cast<double>(below(4));
    snapshot.settings.expandable_segments = below(2) == 0;
    snapshot.settings.configuration = below(2) == 0 ? "" : "garbage_collection_threshold:0.8";
    return snapshot;
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  /// Of any number of bits, up to 45.
  std::uint64_t any() { return random_() >> (19 + below(45)); }
  std::int64_t any_signed() {
    const auto value = static_cast<std::int64_t>(random_() >> (1 + below(63)));
    return below(2) == 0 ? value : -value;
  }

  TorchSegment segment() {
    TorchSegment segment{.device = static_cast<std::uint32_t>(below(3)),
                         .address = next_,
                         .stream = any_signed(),
                         .large = below(2) == 0,
                         .expandable = below(2) == 0,
                         .pool = {any_signed(), any_signed()}};
    for (std::uint64_t i = 1 + below(5); i > 0; --i) {
      const std::uint64_t bytes = 1 + below(std::uint64_t{1} << (1 + below(36)));
      const auto state = static_cast<BlockState>(below(3));
      const std::uint64_t requested = state == BlockState::inactive ? 0 : 1 + below(bytes);
      segment.blocks.push_back({segment.address + segment.bytes, bytes, requested, state});
      segment.bytes += bytes;
    }
    next_ += segment.bytes + below(1 << 20);
    return segment;
  }

  TorchEvent event() {
    static constexpr TorchAction kActions[] = {
        TorchAction::alloc,         TorchAction::free_requested, TorchAction::free_completed,
        TorchAction::segment_alloc, TorchAction::segment_free,   TorchAction::segment_map,
        TorchAction::segment_unmap, TorchAction::out_of_memory};
    TorchEvent event{.action = kActions[below(8)],
                     .address = any(),
                     .bytes = any(),
                     .stream = any_signed(),
                     .time_us = any_signed()};
    if (event.action != TorchAction::out_of_memory && below(2) == 0)
      event.pool = TorchPool{any_signed(), any_signed()};
    return event;
  }

  std::mt19937_64 random_;
  std::uint64_t next_ = std::uint64_t{1} << 32;
};

/// A program on a Millrace allocator, with two streams that hand blocks to each other.
struct TracedProgram {
  explicit TracedProgram(Policy policy, std::uint64_t seed)
      : device(machine.add_device({.data = false})),
        ordered(device),
        source(device),
        allocator(ordered, source, policy) {
    allocator.observe(&trace);
    std::mt19937_64 random{seed};
    Stream main{ordered, {.name = "main"}}, copy{ordered, {.name = "copy"}};
    std::vector<void*> live;
    for (int i = 0; i < 400; ++i) {
      Stream& stream = random() % 2 == 0 ? main : copy;
      if (live.size() < 12 || random() % 2 == 0) {
        live.push_back(
            allocator.allocate(1 + random() % (std::uint64_t{1} << (8 + random() % 18)), stream));
      } else {
        const std::size_t at = random() % live.size();
        allocator.deallocate(live[at], stream);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (random() % 7 == 0) stream.mark();
      if (random() % 11 == 0) main.wait_stream(copy);
      if (random() % 50 == 0) ordered.synchronize();
    }
    statistics = allocator.statistics();
    snapshot = torch_snapshot(trace);
    for (void* const each : live) allocator.deallocate(each);
    allocator.observe(nullptr);
  }

  VirtualMachine machine;
  VirtualDevice& device;
  OrderedDevice ordered;
  DeviceSource source;
  CachingAllocator allocator;
  AllocationTrace trace;
  MemoryStatistics statistics;
  TorchSnapshot snapshot;
};

}  // namespace

TEST_CASE("a snapshot that is written is read back as it was") {
  const std::uint64_t seed = millrace::test::seed();
  for (std::uint64_t i = 0; i < 100; ++i) {
    CAPTURE(seed, i);
    const TorchSnapshot snapshot = RandomSnapshot{seed + i}.make();
    check_same(read_back(snapshot), snapshot);
  }
}

TEST_CASE("PyTorch's own snapshots are written as they were read") {
  const auto data = test::data_folder();
  if (!data) SKIP("the sample traces are not here: set MILLRACE_DATA");
  for (const char* const name : {"medium_128_inference", "medium_512_inference"}) {
    const auto log = read_trace(*data / "traces" / "pytorch" / (std::string{name} + ".pickle"));
    check_same(read_back(*log.snapshot), *log.snapshot);
  }
}

TEST_CASE("a snapshot of an allocator's trace has every byte that it holds") {
  const std::uint64_t seed = millrace::test::seed();
  for (const Policy& policy : {Policy::millrace(), Policy::torch()}) {
    for (std::uint64_t i = 0; i < 5; ++i) {
      CAPTURE(policy.name, seed, i);
      const TracedProgram program{policy, seed + i};
      std::size_t reserved = 0, requested = 0, live = 0;
      for (const TorchSegment& segment : program.snapshot.segments) {
        reserved += segment.bytes;
        for (const TorchBlock& block : segment.blocks) {
          if (block.state != BlockState::allocated) continue;
          requested += block.requested;
          ++live;
        }
      }
      CHECK(reserved == program.statistics.bytes.reserved.current);
      CHECK(requested == program.statistics.bytes.requested.current);
      CHECK(live == program.statistics.live_blocks);
      check_same(read_back(program.snapshot), program.snapshot);
      // Its events lead to it. A reader also expects the sizes of blocks that PyTorch has, where a
      // free block after them was complete when PyTorch would have known it.
      const AllocationLog log = parse_trace(write_torch_snapshot(program.snapshot), "file");
      for (const std::string& warning : log.warnings) {
        if (policy.name == Policy::torch().name)
          CHECK_THAT(warning, Catch::Matchers::StartsWith("a block has another size"));
      }
      std::size_t allocations = 0;
      for (const LogEvent& event : log.events)
        allocations += event.kind == EventKind::allocate ? 1 : 0;
      CHECK(allocations == program.statistics.counts.allocations);
      for (const LoggedBlock& block : log.blocks) CHECK(block.placed);
    }
  }
}
