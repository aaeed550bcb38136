#include "millrace/observe/what_if.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/trace_writer.hpp"
#include "observe/replay/known_completions.hpp"
#include "observe/replay/strategy_log.hpp"
#include "observe/replay/trace_device.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace {

using namespace millrace;
using namespace millrace::trace;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class TextSink final : public TraceSink {
 public:
  bool write(std::string_view record) override {
    text.append(record);
    return true;
  }
  std::string text;
};

/// A trace that a test writes step by step, with the time that it says.
struct Script {
  Script() {
    writer.emplace(sink, [this] { return now; });
  }

  std::uint32_t stream(const std::string& name) { return writer->stream({.name = name}); }
  StackTable::Id site(const std::string& function) {
    return writer->stack(StackTable::kNone, writer->frame({"app.cpp", function, 7}));
  }
  AllocationLog log() {
    writer.reset();
    return parse_trace(sink.text, "script");
  }

  TextSink sink;
  std::int64_t now = 0;
  std::optional<TraceWriter> writer;
};

constexpr std::array kTensors{3 * kMiB, 20 * kMiB, 7 * kMiB};

/// A loop that copies the next batch on a side stream while main computes with this one. Nothing is
/// known to be complete before the host waits for the device, every eighth step.
class Loop {
 public:
  Loop(Policy policy, std::optional<WhatIfStrategy> strategy, Script* script = nullptr,
       int steps = 40)
      : ordered_(device_),
        source_(device_),
        allocator_(ordered_, source_, policy),
        strategy_(strategy),
        steps_(steps),
        script_(script),
        writer_(script == nullptr ? nullptr : &*script->writer) {
    if (writer_ == nullptr) return;
    writer_->program("loop");
    writer_->device(0, 0, "trace");
    // In the order of their ids, as a replay makes them.
    copy_number_ = writer_->stream({.name = "copy"});
    main_number_ = writer_->stream({.name = "main"});
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      const auto frame = writer_->frame({"app.cpp", "load_" + std::to_string(i), 1});
      sites_.push_back(writer_->stack(StackTable::kNone, frame));
    }
  }

  /// The peak of reserved bytes.
  std::size_t run() {
    std::vector<Block> next = load(0);
    for (int step = 0; step < steps_; ++step) {
      if (script_ != nullptr) script_->now = 1000 * step;
      hand_over(next);
      const std::vector<Block> batch = std::exchange(next, load(step + 1));
      compute(step);
      for (const Block& tensor : batch) free(tensor, step);
      if (step % 8 == 7) {
        ordered_.synchronize();
        if (writer_ != nullptr) writer_->passed_device(0);
      }
    }
    hand_over(next);
    for (const Block& tensor : next) free(tensor, steps_);
    return allocator_.statistics().bytes.reserved.peak;
  }

 private:
  struct Block {
    void* address = nullptr;
    std::uint64_t number = 0;
    std::size_t tensor = 0;
  };
  struct Slot {
    void* address = nullptr;
    std::optional<Point> last_use;
  };

  std::vector<Block> load(int step) {
    std::vector<Block> batch;
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      batch.push_back({allocate(i, step), 0, i});
      if (writer_ != nullptr) {
        batch.back().number = writer_->allocated({.stream = copy_number_,
                                                  .address = address_of(batch.back().address),
                                                  .bytes = kTensors[i],
                                                  .stack = sites_[i]});
      }
    }
    copied_ = copy_.mark();
    if (writer_ != nullptr) writer_->marked(copy_number_, copied_.marker);
    return batch;
  }

  void* allocate(std::size_t tensor, int step) {
    const std::size_t bytes = kTensors[tensor];
    if (!strategy_ || *strategy_ == WhatIfStrategy::transfer)
      return allocator_.allocate(bytes, copy_);
    if (*strategy_ == WhatIfStrategy::precise) return allocator_.allocate(bytes, main_, copy_);
    if (*strategy_ == WhatIfStrategy::in_place) {
      copy_.wait_stream(main_);
      return allocator_.allocate(bytes, main_);
    }
    Slot& slot = slots_[tensor][step % 2];
    if (slot.address == nullptr) slot.address = allocator_.allocate(bytes + bytes * 3 / 10, copy_);
    if (slot.last_use) ordered_.wait_for(copy_, *slot.last_use);
    return slot.address;
  }

  void hand_over(const std::vector<Block>& batch) {
    ordered_.wait_for(main_, copied_);
    if (writer_ != nullptr) writer_->waited(main_number_, copy_number_, copied_.marker);
    if (strategy_ != WhatIfStrategy::transfer) return;
    for (const Block& tensor : batch) allocator_.transfer(tensor.address, main_);
  }

  /// Activations of different sizes, which live in part at the same time.
  void compute(int step) {
    std::vector<std::pair<void*, std::uint64_t>> live;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t bytes = (5 + (i * 13 + static_cast<std::size_t>(step) * 7) % 30) * kMiB;
      void* const address = allocator_.allocate(bytes, main_);
      std::uint64_t number = 0;
      if (writer_ != nullptr) {
        number = writer_->allocated(
            {.stream = main_number_, .address = address_of(address), .bytes = bytes});
      }
      live.emplace_back(address, number);
    }
    for (const auto& [address, number] : live) {
      if (writer_ != nullptr) writer_->freed(number, main_number_);
      allocator_.deallocate(address, main_);
    }
  }

  void free(const Block& tensor, int step) {
    if (writer_ != nullptr) writer_->freed(tensor.number, main_number_);
    if (strategy_ == WhatIfStrategy::ring) {
      slots_[tensor.tensor][step % 2].last_use = main_.mark();
    } else {
      allocator_.deallocate(tensor.address, main_);
    }
  }

  static std::uint64_t address_of(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }

  TraceDevice device_{0};
  OrderedDevice ordered_;
  DeviceSource source_;
  CachingAllocator allocator_;
  Stream copy_{ordered_, {.name = "copy"}}, main_{ordered_, {.name = "main"}};
  const std::optional<WhatIfStrategy> strategy_;
  const int steps_;
  Script* const script_;
  TraceWriter* const writer_;
  std::uint32_t copy_number_ = 0, main_number_ = 0;
  std::vector<StackTable::Id> sites_;
  Point copied_;
  std::array<std::array<Slot, 2>, kTensors.size()> slots_;
};

AllocationLog recorded_loop(int steps = 40) {
  Script script;
  Loop{Policy::torch(), std::nullopt, &script, steps}.run();
  return script.log();
}

const WhatIfMove* find(const WhatIf& found, WhatIfStrategy strategy, const std::string& site = "") {
  for (const WhatIfMove& move : found.moves) {
    if (move.strategy == strategy && move.site.starts_with(site) &&
        site.empty() == move.site.empty())
      return &move;
  }
  return nullptr;
}

bool is_within_a_percent(std::size_t predicted, std::size_t measured) {
  return std::abs(static_cast<double>(predicted) - static_cast<double>(measured)) <=
         0.01 * static_cast<double>(measured);
}

/// Programs with several streams, sites and recorded uses, in which a part is known to be complete.
AllocationLog random_program(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const auto below = [&](std::uint64_t end) { return random() % end; };
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("random");
  writer.device(0, 0, "gpu");
  std::vector<std::uint32_t> streams;
  for (const char* const name : {"main", "copy", "comm"}) streams.push_back(script.stream(name));
  const StackTable::Id sites[] = {StackTable::kNone, script.site("load"), script.site("gather")};
  struct Live {
    std::uint64_t number = 0;
    std::size_t stream = 0;
  };
  std::vector<Live> live;
  std::vector<std::uint64_t> freed;
  std::array<std::uint64_t, 3> markers{};
  std::uint64_t address = 1 << 20;
  for (int i = 0; i < 300; ++i) {
    script.now += static_cast<std::int64_t>(below(50));
    const std::size_t one = below(3), other = below(3);
    switch (below(8)) {
      case 0:
      case 1:
      case 2: {
        const std::uint64_t bytes = 1 + below(std::uint64_t{1} << (10 + below(16)));
        const std::size_t stream = below(4) == 0 ? one : below(2);
        live.push_back({writer.allocated({.stream = streams[stream],
                                          .address = address,
                                          .bytes = bytes,
                                          .stack = sites[below(3)]}),
                        stream});
        address += (bytes + 511) / 512 * 512;
        break;
      }
      case 3:
      case 4: {
        if (live.empty()) break;
        const std::size_t at = below(live.size());
        if (below(4) == 0) writer.used(live[at].number, streams[one]);
        writer.freed(live[at].number, streams[below(3) == 0 ? 0 : live[at].stream]);
        freed.push_back(live[at].number);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      case 5:
        writer.marked(streams[one], markers[one] += 1 + below(3));
        break;
      case 6:
        if (markers[other] != 0) writer.waited(streams[one], streams[other], markers[other]);
        break;
      case 7:
        if (below(3) == 0 && !freed.empty()) {
          writer.completed(freed.back());
          freed.pop_back();
        } else if (below(4) == 0) {
          writer.passed_stream(streams[one]);
        }
        break;
    }
  }
  return script.log();
}

}  // namespace

TEST_CASE("what a strategy is said to reserve is what a program with it reserves") {
  const WhatIf found = what_if(recorded_loop(), 0);
  CHECK(found.reserved.torch == Loop(Policy::torch(), std::nullopt).run());
  CHECK(found.reserved.millrace == Loop(Policy::millrace(), std::nullopt).run());
  int compared = 0;
  for (const WhatIfStrategy strategy : {WhatIfStrategy::in_place, WhatIfStrategy::precise,
                                        WhatIfStrategy::transfer, WhatIfStrategy::ring}) {
    CAPTURE(to_string(strategy));
    const WhatIfMove* const move = find(found, strategy);
    if (move == nullptr) continue;  // it saves nothing
    ++compared;
    REQUIRE(move->reserved.torch);
    REQUIRE(move->reserved.millrace);
    CHECK(is_within_a_percent(*move->reserved.torch, Loop(Policy::torch(), strategy).run()));
    CHECK(is_within_a_percent(*move->reserved.millrace, Loop(Policy::millrace(), strategy).run()));
    CHECK(move->stream == "copy");
    CHECK(move->to == "main");
    CHECK(move->sizes == std::vector<std::uint64_t>{20 * kMiB, 7 * kMiB, 3 * kMiB});
  }
  CHECK(compared >= 3);
}

TEST_CASE("a move is left out only if the program with it reserves as much") {
  // With one step, nothing is freed before most memory is live: the headroom of a ring saves
  // nothing.
  for (const int steps : {1, 40}) {
    const WhatIf found = what_if(recorded_loop(steps), 0);
    int left_out = 0;
    for (const WhatIfStrategy strategy : {WhatIfStrategy::in_place, WhatIfStrategy::precise,
                                          WhatIfStrategy::transfer, WhatIfStrategy::ring}) {
      CAPTURE(steps, to_string(strategy));
      if (find(found, strategy) != nullptr) continue;
      ++left_out;
      const auto with = [&](Policy policy) { return Loop(policy, strategy, nullptr, steps).run(); };
      CHECK(with(Policy::torch()) >= *found.reserved.torch);
      CHECK(with(Policy::millrace()) >= *found.reserved.millrace);
    }
    if (steps == 1) REQUIRE(left_out > 0);
  }
}

TEST_CASE("no strategy reserves less than the most that lives at once") {
  const std::uint64_t seed = millrace::test::seed();
  std::size_t moves = 0, of_all = 0;
  for (std::uint64_t i = 0; i < 12; ++i) {
    CAPTURE(seed, i);
    const WhatIf found = what_if(random_program(seed + i), 0);
    for (const WhatIfMove& move : found.moves) {
      ++moves;
      of_all += move.stream == "all side streams" ? 1 : 0;
      CAPTURE(to_string(move.strategy), move.site, move.stream);
      if (move.reserved.torch) CHECK(*move.reserved.torch >= found.load);
      if (move.reserved.millrace) CHECK(*move.reserved.millrace >= found.load);
      if (move.reserved.driver) CHECK(move.reserved.driver->least >= found.load);
      CHECK(move.blocks > 0);
      if (move.strategy == WhatIfStrategy::transfer) {
        CHECK(move.blocks <= move.group_blocks);
      } else {
        CHECK(move.blocks == move.group_blocks);
      }
      const bool waits = move.strategy == WhatIfStrategy::in_place;
      if (waits) CHECK(move.cost.waits == move.blocks);
      const bool free =
          move.strategy == WhatIfStrategy::transfer || move.strategy == WhatIfStrategy::free_list;
      if (free) CHECK((move.cost.waits == 0 && move.cost.most_delay_us == 0));
    }
  }
  CHECK(moves > 0);
  CHECK(of_all > 0);
}

namespace {

/// Two batches of 64 MiB on a side stream, of which main frees the first; then 64 MiB on main.
AllocationLog two_batches(bool has_times, const std::function<void(Script&)>& before_end) {
  Script script;
  TraceWriter& writer = *script.writer;
  if (has_times) writer.program("two batches");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  const StackTable::Id load = script.site("load");
  std::uint64_t address = 1 << 30;
  const auto allocate = [&](std::uint32_t stream, StackTable::Id site) {
    return writer.allocated(
        {.stream = stream, .address = address += 64 * kMiB, .bytes = 64 * kMiB, .stack = site});
  };
  const std::uint64_t weights = allocate(main, StackTable::kNone);
  script.now = 100;
  const std::uint64_t first = allocate(copy, load);
  writer.marked(copy, 1);
  writer.waited(main, copy, 1);
  script.now = 200;
  writer.freed(first, main);
  script.now = 300;
  const std::uint64_t activations = allocate(main, StackTable::kNone);
  writer.freed(activations, main);
  script.now = 400;
  const std::uint64_t second = allocate(copy, load);
  writer.freed(second, copy);
  before_end(script);
  writer.freed(weights, main);
  return script.log();
}

std::optional<std::int64_t> delay_in_place(bool has_times,
                                           const std::function<void(Script&)>& before_end) {
  const WhatIf found = what_if(two_batches(has_times, before_end), 0);
  const WhatIfMove* const move = find(found, WhatIfStrategy::in_place);
  REQUIRE(move != nullptr);
  CHECK(move->cost.waits == 2);
  return move->cost.most_delay_us;
}

}  // namespace

TEST_CASE("a wait delays at most until the trace knows what it waits for to be complete") {
  // The waits are before the allocations at 100 and 400; stream 0 is main.
  const auto known_at = [](std::int64_t time) {
    return [time](Script& script) {
      script.now = time;
      script.writer->passed_stream(0);
    };
  };
  CHECK(delay_in_place(true, known_at(1000)) == 900);
  CHECK(delay_in_place(true, known_at(400)) == 300);
  CHECK(delay_in_place(true, [](Script& script) {
          script.now = 500;
          script.writer->passed_device(0);
        }) == 400);
  CHECK(delay_in_place(true, [](Script&) {}) == std::nullopt);
  CHECK(delay_in_place(false, known_at(1000)) == std::nullopt);  // times are positions
}

namespace {

struct Side {
  std::string name;
  std::size_t sites = 1;
  std::size_t bytes = 0;  // of one site
};

/// Main frees 256 MiB; then each side stream has a block of each of its sites at once.
AllocationLog with_sides(const std::vector<Side>& sides) {
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("side streams");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main");
  std::uint64_t address = std::uint64_t{1} << 30;
  const auto allocate = [&](std::uint32_t stream, std::size_t bytes, StackTable::Id site) {
    address += bytes;
    return writer.allocated(
        {.stream = stream, .address = address - bytes, .bytes = bytes, .stack = site});
  };
  writer.freed(allocate(main, 256 * kMiB, StackTable::kNone), main);
  for (const Side& side : sides) {
    const std::uint32_t stream = script.stream(side.name);
    std::vector<std::uint64_t> live;
    for (std::size_t i = 0; i < side.sites; ++i) {
      const StackTable::Id site = script.site(side.name + "_" + std::to_string(i));
      live.push_back(allocate(stream, side.bytes, site));
    }
    for (const std::uint64_t block : live) writer.freed(block, stream);
  }
  return script.log();
}

}  // namespace

TEST_CASE("a side stream of many sites does not hide the next one") {
  const WhatIf found = what_if(with_sides({{"A", 6, 20 * kMiB}, {"B", 6, 10 * kMiB}}), 0);
  for (const std::string stream : {"A", "B"}) {
    CAPTURE(stream);
    std::set<std::string> sites;
    for (const WhatIfMove& move : found.moves) {
      if (move.stream == stream && move.strategy == WhatIfStrategy::in_place)
        sites.insert(move.site);
    }
    CHECK(sites.size() == 7);  // "" is the stream as a whole
  }
}

TEST_CASE("of many side streams, those that allocate most are tried") {
  std::vector<Side> sides;
  for (int i = 0; i < 8; ++i) sides.push_back({"small " + std::to_string(i), 1, 20 * kMiB});
  sides.push_back({"large", 1, 40 * kMiB});
  std::set<std::string> streams;
  for (const WhatIfMove& move : what_if(with_sides(sides), 0).moves) streams.insert(move.stream);
  CHECK(streams == std::set<std::string>{"all side streams", "large", "small 0", "small 1",
                                         "small 2", "small 3", "small 4"});
}

TEST_CASE("buffers that are kept are as many as were in use, or not known to be complete") {
  // The second batch may have the buffer of the first only if main's use of it is complete.
  const WhatIf unknown = what_if(two_batches(true, [](Script&) {}), 0);
  CHECK(find(unknown, WhatIfStrategy::free_list) == nullptr);  // two buffers: nothing is saved
  const WhatIfMove* const ring = find(unknown, WhatIfStrategy::ring);
  REQUIRE(ring != nullptr);
  CHECK(ring->cost.waits == 1);
  CHECK(ring->cost.most_delay_us == std::nullopt);
  CHECK(*ring->reserved.torch < *unknown.reserved.torch + 64 * kMiB);
}

namespace {

/// The two-batch program as a strategy changes it; `copy` is stream 1.
AllocationLog changed_by(WhatIfStrategy strategy, const AllocationLog& log, WhatIfCost* cost) {
  const KnownCompletions known{log, 0};
  const StrategyLog changed{log, known, {.stream = 1, .to = 0, .stack = {}}, strategy};
  if (cost != nullptr) *cost = changed.cost();
  return changed.log();
}

std::size_t made_for_copy(const AllocationLog& log) {
  std::size_t made = 0;
  for (const LogEvent& event : log.events)
    made += event.kind == EventKind::allocate && log.blocks[event.block].stream == 1 ? 1 : 0;
  return made;
}

}  // namespace

TEST_CASE("a kept buffer is used again when its last use is known to be complete") {
  for (const bool is_complete : {false, true}) {
    Script script;
    TraceWriter& writer = *script.writer;
    writer.program("one after the other");
    writer.device(0, 0, "gpu");
    const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
    static_cast<void>(writer.allocated({.stream = main, .address = 1 << 20, .bytes = 4096}));
    std::uint64_t address = 1 << 30;
    for (int i = 0; i < 5; ++i) {
      const auto batch =
          writer.allocated({.stream = copy, .address = address += kMiB, .bytes = 1000});
      writer.freed(batch, main);
      if (is_complete) writer.completed(batch);
    }
    WhatIfCost cost;
    const AllocationLog log = script.log();
    const AllocationLog kept = changed_by(WhatIfStrategy::free_list, log, &cost);
    CHECK(made_for_copy(kept) == (is_complete ? 1 : 5));
    CHECK(cost.waits == 0);
    const AllocationLog ring = changed_by(WhatIfStrategy::ring, log, &cost);
    CHECK(made_for_copy(ring) == 1);
    CHECK(cost.waits == (is_complete ? 0 : 4));
    CHECK(ring.blocks.back().bytes == 1300);
  }
}

TEST_CASE("a request gets the smallest kept buffer that is large enough") {
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("sizes");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main"), copy = script.stream("copy");
  const StackTable::Id load = script.site("load");
  std::uint64_t address = 1 << 30;
  const auto allocate = [&](std::uint32_t stream, std::uint64_t bytes) {
    return writer.allocated(
        {.stream = stream, .address = address += kMiB, .bytes = bytes, .stack = load});
  };
  static_cast<void>(allocate(main, 4096));
  std::vector<std::uint64_t> live{allocate(copy, 2000), allocate(copy, 1000)};
  for (const std::uint64_t block : std::exchange(live, {})) writer.freed(block, copy);
  live = {allocate(copy, 900), allocate(copy, 1500)};
  for (const std::uint64_t block : live) writer.freed(block, copy);
  static_cast<void>(allocate(copy, 5000));
  const AllocationLog log = script.log();
  CHECK(made_for_copy(changed_by(WhatIfStrategy::free_list, log, nullptr)) == 3);
  // The largest buffer of a ring grows.
  const AllocationLog ring = changed_by(WhatIfStrategy::ring, log, nullptr);
  CHECK(made_for_copy(ring) == 3);
  CHECK(ring.blocks.back().bytes == 6500);
  std::vector<std::uint64_t> freed;
  for (const LogEvent& event : ring.events) {
    if (event.kind == EventKind::free_requested) freed.push_back(ring.blocks[event.block].bytes);
  }
  CHECK(freed == std::vector<std::uint64_t>{2600});
}

TEST_CASE("a kept buffer serves the only stream that used it last, and others once that is over") {
  Script script;
  TraceWriter& writer = *script.writer;
  writer.program("two side streams");
  writer.device(0, 0, "gpu");
  const std::uint32_t main = script.stream("main");
  const std::uint32_t copy = script.stream("copy"), comm = script.stream("comm");
  std::uint64_t address = 1 << 30;
  const auto allocate = [&](std::uint32_t stream) {
    return writer.allocated({.stream = stream, .address = address += kMiB, .bytes = 1000});
  };
  static_cast<void>(allocate(main));
  const std::uint64_t first = allocate(copy);
  writer.freed(first, copy);
  const std::uint64_t second = allocate(comm);  // not that of copy
  writer.used(second, copy);
  writer.freed(second, comm);
  const std::uint64_t third = allocate(copy);   // that of the first
  const std::uint64_t fourth = allocate(comm);  // copy may still use the second
  writer.completed(second);
  const std::uint64_t fifth = allocate(copy);  // that of the second
  for (const std::uint64_t block : {third, fifth}) writer.freed(block, copy);
  writer.freed(fourth, comm);
  const AllocationLog log = script.log();
  const KnownCompletions known{log, 0};
  const StrategyLog changed{
      log, known, {.stream = {}, .to = 0, .stack = {}}, WhatIfStrategy::free_list};
  CHECK(changed.changed().size() == 5);
  CHECK(std::ranges::count(changed.log().events, EventKind::allocate, &LogEvent::kind) == 1 + 3);
}

TEST_CASE("the time of waits that an allocator adds is not known") {
  WhatIfCost cost;
  const AllocationLog log = two_batches(true, [](Script& script) {
    script.now = 500;
    script.writer->passed_device(0);
  });
  static_cast<void>(changed_by(WhatIfStrategy::precise, log, &cost));
  CHECK_FALSE(cost.waits_are_known);
  CHECK(cost.most_delay_us == std::nullopt);
}

TEST_CASE("memory is handed over where main first waits for the side stream, and freed there") {
  const AllocationLog log = two_batches(true, [](Script&) {});
  const AllocationLog handed = changed_by(WhatIfStrategy::transfer, log, nullptr);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> found;  // block and stream
  for (const LoggedOrder& step : handed.order) {
    if (step.kind == OrderKind::transferred) found.emplace_back(step.block, step.stream);
  }
  // Main never waits for the second batch, which copy frees.
  CHECK(found == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 0}});
  CHECK(handed.events.size() == log.events.size());
  const KnownCompletions known{log, 0};
  const StrategyLog changed{
      log, known, {.stream = 1, .to = 0, .stack = {}}, WhatIfStrategy::transfer};
  CHECK(changed.changed() == std::vector<std::uint32_t>{1});
}

TEST_CASE("what-if says in words what saves most and what that costs") {
  const WhatIf found = what_if(recorded_loop(), 0);
  const WhatIfMove* const move = find(found, WhatIfStrategy::in_place);
  REQUIRE(move != nullptr);
  CHECK(move->cost.waits == 123);
  REQUIRE(move->cost.most_delay_us);
  // Waits before each load; the host waits for the device at the end of each eighth step.
  CHECK(*move->cost.most_delay_us == 5 * 7000);
  const std::string text = to_string(found);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\n  saves most\n"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring(
                       "all 123 allocations for copy (3 sizes), in-place on main"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("123 waits of copy, which delay it by"));
}

namespace {

/// A move of copy's with this peak and these waits of millrace.
WhatIfMove move_with(WhatIfStrategy strategy, std::size_t millrace, std::size_t millrace_waits) {
  WhatIfMove move;
  move.strategy = strategy;
  move.stream = "copy";
  move.to = "main";
  move.sizes = {kMiB};
  move.blocks = move.group_blocks = 68;
  move.reserved.torch = 90 * kMiB;
  move.reserved.millrace = millrace;
  move.reserved.millrace_waits = millrace_waits;
  return move;
}

}  // namespace

TEST_CASE("a move for which the allocator adds waits is not called free of cost") {
  using Catch::Matchers::ContainsSubstring;
  WhatIf found;
  found.reserved.torch = found.reserved.millrace = 100 * kMiB;
  found.reserved.millrace_waits = 3;
  found.moves.push_back(move_with(WhatIfStrategy::transfer, 50 * kMiB, 15));
  found.moves.back().blocks = 12;
  const std::string handed = "12 of the 68 allocations for copy (1 size), handed to main";
  const std::string alone = to_string(found);
  CHECK_THAT(alone, ContainsSubstring("with torch 10.0 MiB: " + handed +
                                      ";\n      no wait is added to the program: costs 0 us\n"));
  CHECK_THAT(alone, ContainsSubstring("with millrace 50.0 MiB: " + handed +
                                      ";\n      no wait is added to the program, and 12 waits of "
                                      "the allocator, whose time is not known\n"));
  CHECK_THAT(alone, ContainsSubstring("no wait is added to the program, and 12 waits of the "
                                      "allocator with millrace, whose time is not known\n"));
  // A move whose time is known is cheaper, even if it is not 0.
  found.moves.push_back(move_with(WhatIfStrategy::in_place, 50 * kMiB, 3));
  found.moves.back().cost.waits = 68;
  found.moves.back().cost.most_delay_us = 456;
  const std::string both = to_string(found);
  CHECK_THAT(both, ContainsSubstring("with torch 10.0 MiB: " + handed));
  CHECK_THAT(both,
             ContainsSubstring(
                 "with millrace 50.0 MiB: all 68 allocations for copy (1 size), in-place on "
                 "main;\n      68 waits of copy, which delay it by 456 us in all, at most\n"));
}
