#include "millrace/observe/trace_snapshot.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
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

/// Returns a stack and a label as text, because their ids are valid in one snapshot only.
std::string text_of(const TorchSnapshot& snapshot, StackTable::Id stack, LabelTable::Id label) {
  std::string text = snapshot.labels.at(label);
  for (const StackTable::FrameId id : snapshot.stacks.frames_of(stack)) {
    const StackFrame& frame = snapshot.stacks.at(id);
    text += '|' + frame.function + ' ' + frame.file + ':' + std::to_string(frame.line);
  }
  return text;
}

/// Moves the texts out of the records. The rest can then be compared between snapshots.
template <typename Record>
void take_texts(std::vector<Record>& records, const TorchSnapshot& of,
                std::vector<std::string>& texts) {
  for (Record& record : records) {
    texts.push_back(text_of(of, record.stack, record.label));
    record.stack = StackTable::kNone;
    record.label = LabelTable::kNone;
  }
}

std::vector<std::string> take_texts(TorchSnapshot& snapshot) {
  std::vector<std::string> texts;
  for (TorchSegment& segment : snapshot.segments) take_texts(segment.blocks, snapshot, texts);
  for (TorchSegment& segment : snapshot.host_segments) take_texts(segment.blocks, snapshot, texts);
  for (auto& trace : snapshot.traces) take_texts(trace, snapshot, texts);
  take_texts(snapshot.host_trace, snapshot, texts);
  for (TorchMark& mark : snapshot.marks) {
    texts.push_back(snapshot.labels.at(mark.name));
    mark.name = LabelTable::kNone;
  }
  return texts;
}

void check_same(TorchSnapshot read, TorchSnapshot written) {
  CHECK(take_texts(read) == take_texts(written));
  CHECK(read.segments == written.segments);
  CHECK(read.traces == written.traces);
  CHECK(read.host_segments == written.host_segments);
  CHECK(read.host_trace == written.host_trace);
  CHECK(read.marks == written.marks);
  CHECK(read.settings == written.settings);
}

/// Makes random snapshots of valid form, with sizes and numbers of every length.
class RandomSnapshot {
 public:
  explicit RandomSnapshot(std::uint64_t seed) : random_(seed) {}

  TorchSnapshot make() {
    add_texts();
    for (std::uint64_t i = 1 + below(20); i > 0; --i) snapshot.segments.push_back(segment());
    // One free is pending. Without it, a reader would add completions to a trace that has none.
    TorchBlock& waits = snapshot.segments.front().blocks.front();
    waits.state = BlockState::pending_free;
    waits.requested = waits.bytes;
    for (std::uint64_t i = below(3); i > 0; --i) {
      auto& trace = snapshot.traces.emplace_back();
      for (std::uint64_t j = below(10) == 0 ? 2500 : below(50); j > 0; --j)
        trace.push_back(event());
    }
    if (below(2) == 0) add_host();
    for (std::uint64_t i = below(5); i > 0; --i) {
      snapshot.marks.push_back({.name = label(),
                                .begins = below(2) == 0,
                                .device = static_cast<std::uint32_t>(below(3)),
                                .time_us = static_cast<std::int64_t>(100 - i)});
    }
    if (below(2) == 0) snapshot.settings.max_split_size = any() + 1;
    snapshot.settings.roundup_power2_divisions[below(16)] = 4;
    snapshot.settings.garbage_collection_threshold = 0.25 * static_cast<double>(below(4));
    snapshot.settings.expandable_segments = below(2) == 0;
    snapshot.settings.configuration = below(2) == 0 ? "" : "garbage_collection_threshold:0.8";
    return std::move(snapshot);
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  /// Returns a number of any length up to 45 bits.
  std::uint64_t any() { return random_() >> (19 + below(45)); }
  std::int64_t any_signed() {
    const auto value = static_cast<std::int64_t>(random_() >> (1 + below(63)));
    return below(2) == 0 ? value : -value;
  }

  void add_texts() {
    for (std::uint64_t i = below(20); i > 0; --i) {
      static_cast<void>(
          snapshot.stacks.frame({"model.py", "layer_" + std::to_string(i), below(99)}));
    }
    for (std::uint64_t i = below(30); snapshot.stacks.frame_count() > 0 && i > 0; --i) {
      const auto outer = static_cast<StackTable::Id>(below(snapshot.stacks.stack_count() + 1));
      const auto inner = static_cast<StackTable::FrameId>(below(snapshot.stacks.frame_count()));
      static_cast<void>(snapshot.stacks.push(outer, inner));
    }
    for (std::uint64_t i = below(4); i > 0; --i)
      static_cast<void>(snapshot.labels.add("activations " + std::to_string(i)));
  }
  StackTable::Id stack() {
    return static_cast<StackTable::Id>(below(snapshot.stacks.stack_count() + 1));
  }
  LabelTable::Id label() { return static_cast<LabelTable::Id>(below(snapshot.labels.size())); }

  void add_host() {
    TorchSegment pinned{.address = next_, .bytes = 4096, .large = true};
    pinned.blocks.push_back({next_, 4096, 4096, BlockState::allocated, stack(), label()});
    snapshot.host_segments.push_back(pinned);
    snapshot.host_trace.push_back(event());
    next_ += 4096;
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
      if (state != BlockState::inactive) {
        segment.blocks.back().stack = stack();
        segment.blocks.back().label = label();
      }
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
                     .time_us = any_signed(),
                     .stack = stack(),
                     .label = label()};
    if (event.action != TorchAction::out_of_memory && below(2) == 0)
      event.pool = TorchPool{any_signed(), any_signed()};
    return event;
  }

  TorchSnapshot snapshot;
  std::mt19937_64 random_;
  std::uint64_t next_ = std::uint64_t{1} << 32;
};

/// A program on a Millrace allocator, with two streams that pass blocks to each other.
struct TracedProgram {
  explicit TracedProgram(Policy policy, std::uint64_t seed)
      : device(machine.add_device({.data = false})),
        ordered(device),
        source(device),
        allocator(ordered, source, policy) {
    allocator.observe(&trace);
    const Tag tags[] = {{}, allocator.tag("weights"), allocator.tag("activations")};
    std::mt19937_64 random{seed};
    Stream main{ordered, {.name = "main"}}, copy{ordered, {.name = "copy"}};
    std::vector<void*> live;
    for (int i = 0; i < 400; ++i) {
      Stream& stream = random() % 2 == 0 ? main : copy;
      if (live.size() < 12 || random() % 2 == 0) {
        live.push_back(allocator.allocate(1 + random() % (std::uint64_t{1} << (8 + random() % 18)),
                                          stream, tags[random() % 3]));
      } else {
        const std::size_t at = random() % live.size();
        allocator.deallocate(live[at], stream);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
      }
      if (random() % 7 == 0) stream.mark();
      if (random() % 11 == 0) main.wait_stream(copy);
      if (random() % 50 == 0) ordered.synchronize();
      if (i % 100 == 50) trace.begin_window("part " + std::to_string(i / 100));
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
  CallStacks stacks;
  AllocationTrace trace{{.stacks = &stacks}};
  MemoryStatistics statistics;
  TorchSnapshot snapshot;
};

}  // namespace

TEST_CASE("a written snapshot is read back unchanged") {
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
    check_same(read_back(whole_snapshot(log)), whole_snapshot(log));
  }
}

TEST_CASE("a snapshot of an allocator's trace has every byte that the allocator holds") {
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
      // The events must lead to the snapshot's state. A reader also expects PyTorch's block sizes.
      // These depend on when PyTorch would have found the free block after a block complete.
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

TEST_CASE("a snapshot of a trace has its tags, marks and stacks") {
  const TracedProgram program{Policy::millrace(), millrace::test::seed()};
  const TorchSnapshot& snapshot = program.snapshot;
  std::map<std::string, std::size_t> tagged;
  for (const TorchEvent& event : snapshot.traces.front()) {
    if (event.action != TorchAction::alloc) continue;
    ++tagged[snapshot.labels.at(event.label)];
    const std::string text = text_of(snapshot, event.stack, LabelTable::kNone);
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring("TracedProgram"));
    CHECK_THAT(text, !Catch::Matchers::ContainsSubstring("CachingAllocator"));
  }
  CHECK(tagged["weights"] + tagged["activations"] + tagged[""] ==
        program.statistics.counts.allocations);
  CHECK(tagged["weights"] > 0);
  for (const ShareStatistics& share : program.statistics.tags) {
    if (share.name == "untagged") continue;
    std::size_t bytes = 0;
    for (const TorchSegment& segment : snapshot.segments) {
      for (const TorchBlock& block : segment.blocks) {
        const bool counts =
            block.state == BlockState::allocated && snapshot.labels.at(block.label) == share.name;
        bytes += counts ? block.bytes : 0;
      }
    }
    CHECK(bytes == share.allocated.current);
  }
  std::vector<std::string> marks;
  for (const TorchMark& mark : snapshot.marks)
    marks.push_back(snapshot.labels.at(mark.name) + (mark.begins ? " begins" : " ends"));
  CHECK(marks == std::vector<std::string>{"part 0 begins", "part 0 ends", "part 1 begins",
                                          "part 1 ends", "part 2 begins", "part 2 ends",
                                          "part 3 begins", "part 3 ends"});
}

TEST_CASE("two devices' snapshots are joined with all of their segments and texts") {
  const std::uint64_t seed = millrace::test::seed();
  TorchSnapshot first = RandomSnapshot{seed}.make(), second = RandomSnapshot{seed + 1}.make();
  for (TorchSnapshot* const each : {&first, &second}) {
    each->host_segments.clear();
    each->host_trace.clear();
  }
  const std::size_t devices = first.traces.size();
  for (TorchSegment& segment : second.segments) {
    segment.address += std::uint64_t{1} << 50;
    segment.device += static_cast<std::uint32_t>(devices);
  }
  second.traces.insert(second.traces.begin(), devices, {});
  TorchSnapshot whole = first;
  append(whole, second);
  REQUIRE(whole.segments.size() == first.segments.size() + second.segments.size());
  REQUIRE(whole.traces.size() == second.traces.size());
  for (std::size_t i = 0; i < whole.traces.size(); ++i)
    CHECK(whole.traces[i].size() == (i < devices ? first : second).traces[i].size());
  CHECK(std::ranges::is_sorted(whole.marks, {}, &TorchMark::time_us));
  std::vector<std::string> texts = take_texts(whole), expected = take_texts(first);
  for (std::string& text : take_texts(second)) expected.push_back(std::move(text));
  std::ranges::sort(texts);
  std::ranges::sort(expected);
  CHECK(texts == expected);
}

TEST_CASE("every snapshot's file begins with the same bytes") {
  CHECK(write_torch_snapshot({}).starts_with(kTorchSnapshotBeginning));
  CHECK(write_torch_snapshot(RandomSnapshot{millrace::test::seed()}.make())
            .starts_with(kTorchSnapshotBeginning));
}

TEST_CASE("memory from before an observer is reported to it in its current state") {
  for (const Policy& policy : {Policy::millrace(), Policy::torch()}) {
    VirtualMachine machine;
    VirtualDevice& device = machine.add_device({.data = false});
    OrderedDevice ordered{device};
    DeviceSource source{device};
    CachingAllocator allocator{ordered, source, policy};
    Stream main{ordered, {.name = "main"}};
    std::vector<void*> live;
    for (std::size_t i = 1; i < 40; ++i)
      live.push_back(allocator.allocate(i * 100'000, main, allocator.tag("weights")));
    for (std::size_t i = 0; i < live.size(); i += 3)
      allocator.deallocate(std::exchange(live[i], nullptr), main);
    AllocationTrace trace;
    allocator.observe_all(trace);
    allocator.deallocate(std::exchange(live[1], nullptr), main);
    live[0] = allocator.allocate(12'345, main);
    const MemoryStatistics statistics = allocator.statistics();
    const TorchSnapshot snapshot = torch_snapshot(trace);
    std::size_t reserved = 0, requested = 0;
    for (const TorchSegment& segment : snapshot.segments) {
      reserved += segment.bytes;
      for (const TorchBlock& block : segment.blocks)
        requested += block.state == BlockState::allocated ? block.requested : 0;
    }
    CHECK(reserved == statistics.bytes.reserved.current);
    CHECK(requested == statistics.bytes.requested.current);
    for (void* const each : live) allocator.deallocate(each);
    allocator.observe(nullptr);
  }
}
