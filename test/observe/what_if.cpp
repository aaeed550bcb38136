// What-if of whole programs: compares predictions with programs that use the strategy.

#include "millrace/observe/what_if.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "observe/replay/trace_device.hpp"
#include "test/observe/what_if_script.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {
namespace {

using namespace trace;

constexpr std::array kTensors{3 * MiB, 20 * MiB, 7 * MiB};

/// A loop that copies the next batch on a side stream while main computes with the current one. The
/// host knows that work is complete only after it waits for the device, every eighth step.
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
    // In the order of their ids, because a replay creates them in that order.
    copy_number_ = writer_->stream({.name = "copy"});
    main_number_ = writer_->stream({.name = "main"});
    for (std::size_t i = 0; i < kTensors.size(); ++i) {
      const auto frame = writer_->frame({"app.cpp", "load_" + std::to_string(i), 1});
      sites_.push_back(writer_->stack(StackTable::kNone, frame));
    }
  }

  /// Runs the loop and returns the peak of reserved bytes.
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

  /// Allocates activations of different sizes with overlapping lifetimes.
  void compute(int step) {
    std::vector<std::pair<void*, std::uint64_t>> live;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t bytes = (5 + (i * 13 + static_cast<std::size_t>(step) * 7) % 30) * MiB;
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

bool is_within_a_percent(std::size_t predicted, std::size_t measured) {
  return std::abs(static_cast<double>(predicted) - static_cast<double>(measured)) <=
         0.01 * static_cast<double>(measured);
}

/// A random program with several streams, sites and recorded uses. Some of its work is known to be
/// complete.
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

TEST_CASE("the bytes predicted for a strategy match a program that uses the strategy") {
  const WhatIf found = what_if(recorded_loop(), 0);
  CHECK(found.reserved.torch == Loop(Policy::torch(), std::nullopt).run());
  CHECK(found.reserved.millrace == Loop(Policy::millrace(), std::nullopt).run());
  int compared = 0;
  for (const WhatIfStrategy strategy : {WhatIfStrategy::in_place, WhatIfStrategy::precise,
                                        WhatIfStrategy::transfer, WhatIfStrategy::ring}) {
    CAPTURE(to_string(strategy));
    const WhatIfMove* const move = find(found, strategy);
    if (move == nullptr) continue;  // the move saves nothing
    ++compared;
    REQUIRE(move->reserved.torch);
    REQUIRE(move->reserved.millrace);
    CHECK(is_within_a_percent(*move->reserved.torch, Loop(Policy::torch(), strategy).run()));
    CHECK(is_within_a_percent(*move->reserved.millrace, Loop(Policy::millrace(), strategy).run()));
    CHECK(move->stream == "copy");
    CHECK(move->to == "main");
    CHECK(move->sizes == std::vector<std::uint64_t>{20 * MiB, 7 * MiB, 3 * MiB});
  }
  CHECK(compared >= 3);
}

TEST_CASE("a move is left out only if the program with it reserves as much") {
  // With one step, nothing is freed before most memory is live, so the headroom of a ring saves
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

TEST_CASE("no strategy reserves less than the most bytes live at once") {
  const std::uint64_t seed = test::seed();
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

TEST_CASE("what-if says in words which move saves most and what it costs") {
  const WhatIf found = what_if(recorded_loop(), 0);
  const WhatIfMove* const move = find(found, WhatIfStrategy::in_place);
  REQUIRE(move != nullptr);
  CHECK(move->cost.waits == 123);
  REQUIRE(move->cost.most_delay_us);
  // Each load waits, at most until the host waits for the device in every eighth step.
  CHECK(*move->cost.most_delay_us == 5 * 7000);
  const std::string text = to_string(found);
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\n  saves most\n"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring(
                       "all 123 allocations for copy (3 sizes), in-place on main"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("123 waits of copy, which delay it by"));
}

namespace {

/// A move for stream copy, with the given peak and number of waits of the millrace preset.
WhatIfMove move_with(WhatIfStrategy strategy, std::size_t millrace, std::size_t millrace_waits) {
  WhatIfMove move;
  move.strategy = strategy;
  move.stream = "copy";
  move.to = "main";
  move.sizes = {MiB};
  move.blocks = move.group_blocks = 68;
  move.reserved.torch = 90 * MiB;
  move.reserved.millrace = millrace;
  move.reserved.millrace_waits = millrace_waits;
  return move;
}

}  // namespace

TEST_CASE("a move for which the allocator adds waits is not called free of cost") {
  using Catch::Matchers::ContainsSubstring;
  WhatIf found;
  found.reserved.torch = found.reserved.millrace = 100 * MiB;
  found.reserved.millrace_waits = 3;
  found.moves.push_back(move_with(WhatIfStrategy::transfer, 50 * MiB, 15));
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
  found.moves.push_back(move_with(WhatIfStrategy::in_place, 50 * MiB, 3));
  found.moves.back().cost.waits = 68;
  found.moves.back().cost.most_delay_us = 456;
  const std::string both = to_string(found);
  CHECK_THAT(both, ContainsSubstring("with torch 10.0 MiB: " + handed));
  CHECK_THAT(both,
             ContainsSubstring(
                 "with millrace 50.0 MiB: all 68 allocations for copy (1 size), in-place on "
                 "main;\n      68 waits of copy, which delay it by 456 us in all, at most\n"));
}

}  // namespace millrace::test
