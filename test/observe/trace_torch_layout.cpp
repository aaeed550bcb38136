#include <rapidcheck.h>

#include <random>
#include <string>

#include "millrace/observe/trace/read_trace.hpp"
#include "millrace/observe/trace/torch_layout.hpp"
#include "test/support/catch.hpp"
#include "test/support/data.hpp"
#include "test/support/seed.hpp"
#include "test/support/sizes.hpp"
#include "test/support/torch_model.hpp"

namespace {

using millrace::test::MiB;
using millrace::test::TorchModel;
using namespace millrace::trace;

constexpr std::uint64_t kLayoutBase = std::uint64_t{1} << 40;

std::vector<std::string> findings(const TorchSnapshot& snapshot, TorchLayout& layout) {
  Warnings warnings;
  layout = initial_layout(snapshot, 0, warnings);
  return warnings.lines();
}

TorchSegment expandable_segment(std::uint64_t address, std::uint64_t bytes, bool large) {
  TorchSegment segment;
  segment.address = address;
  segment.bytes = bytes;
  segment.large = large;
  segment.expandable = true;
  segment.blocks = {{address, bytes, 0, BlockState::inactive}};
  return segment;
}

/// Gives out rising addresses, with a gap between segments.
class Addresses {
 public:
  std::uint64_t operator()(std::uint64_t bytes) {
    const std::uint64_t address = next_;
    next_ += bytes + 2 * MiB;
    return address;
  }

 private:
  std::uint64_t next_ = kLayoutBase;
};

struct Step {
  unsigned choice;
  unsigned which;
  std::uint64_t bytes;
  std::int64_t stream;
};

rc::Gen<Step> a_step(bool large_too) {
  const auto small = rc::gen::inRange<std::uint64_t>(1, MiB);
  const auto large = rc::gen::inRange<std::uint64_t>(MiB, 30 * MiB);
  return rc::gen::build<Step>(rc::gen::set(&Step::choice, rc::gen::inRange(0U, 20U)),
                              rc::gen::set(&Step::which, rc::gen::arbitrary<unsigned>()),
                              rc::gen::set(&Step::bytes, large_too ? rc::gen::oneOf(small, large)
                                                                   : rc::gen::oneOf(small, small)),
                              rc::gen::set(&Step::stream, rc::gen::element<std::int64_t>(0, 5)));
}

std::uint64_t pick(const std::vector<std::uint64_t>& from, unsigned which) {
  return from[which % from.size()];
}

void take_step(TorchModel& model, const Step& step) {
  const auto in_use = model.in_state(BlockState::allocated);
  const auto pending = model.in_state(BlockState::pending_free);
  if (step.choice < 9 || in_use.empty()) {
    model.allocate(step.bytes, step.stream);
  } else if (step.choice < 16) {
    const std::uint64_t address = pick(in_use, step.which);
    model.request_free(address);
    if (step.choice < 13) model.complete_free(address);
  } else if (step.choice < 19) {
    if (!pending.empty()) model.complete_free(pick(pending, step.which));
  } else {
    model.release_cached();
  }
}

struct Run {
  std::vector<TorchSegment> start;
  TorchSnapshot snapshot;
};

/// Returns the snapshot of the current state if tracing began at event `begin`.
TorchSnapshot traced(const TorchModel& model, std::size_t begin) {
  TorchSnapshot snapshot;
  snapshot.segments = model.segments();
  snapshot.traces.emplace_back(model.events().begin() + static_cast<std::ptrdiff_t>(begin),
                               model.events().end());
  return snapshot;
}

/// Runs a random program. Only its second part is traced, as with a ring buffer.
Run random_run(const TorchSettings& settings, bool large_too) {
  TorchModel model{settings, Addresses{}};
  const auto steps = *rc::gen::container<std::vector<Step>>(a_step(large_too));
  const std::size_t untraced = *rc::gen::inRange<std::size_t>(0, steps.size() + 1);
  for (std::size_t i = 0; i < untraced; ++i) take_step(model, steps[i]);
  const std::size_t begin = model.events().size();
  Run run;
  run.start = model.segments();
  for (std::size_t i = untraced; i < steps.size(); ++i) take_step(model, steps[i]);
  run.snapshot.settings = settings;
  run.snapshot.segments = model.segments();
  run.snapshot.traces.emplace_back(model.events().begin() + static_cast<std::ptrdiff_t>(begin),
                                   model.events().end());
  return run;
}

/// Checks that segments and the addresses, requests and states of blocks in use are exact. A rest
/// of up to 1 MiB after a large block may count as part of the next free block.
void check_same_but_for_rests(const std::vector<TorchSegment>& found,
                              const std::vector<TorchSegment>& truth) {
  RC_ASSERT(found.size() == truth.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const auto& a = found[i];
    const auto& b = truth[i];
    RC_ASSERT(a.address == b.address);
    RC_ASSERT(a.bytes == b.bytes);
    RC_ASSERT(a.large == b.large);
    RC_ASSERT(a.stream == b.stream);
    RC_ASSERT(a.blocks.size() == b.blocks.size());
    for (std::size_t k = 0; k < b.blocks.size(); ++k) {
      RC_ASSERT(a.blocks[k].state == b.blocks[k].state);
      if (b.blocks[k].state == BlockState::inactive) continue;
      RC_ASSERT(a.blocks[k].address == b.blocks[k].address);
      RC_ASSERT(a.blocks[k].requested == b.blocks[k].requested);
      RC_ASSERT(a.blocks[k].bytes <= b.blocks[k].bytes);
      RC_ASSERT(b.blocks[k].bytes - a.blocks[k].bytes <= (b.large ? MiB : 0));
    }
  }
}

/// Returns 1 if a model that starts with this layout places an allocation of the trace at another
/// address, otherwise 0.
std::size_t other_decisions(const TorchSnapshot& snapshot, const TorchLayout& layout) {
  std::vector<std::uint64_t> new_segments;
  for (const TorchEvent& event : snapshot.traces[0]) {
    if (event.action == TorchAction::segment_alloc) new_segments.push_back(event.address);
  }
  std::size_t next = 0;
  const auto driver = [&](std::uint64_t) {
    return next < new_segments.size() ? new_segments[next++] : 0;
  };
  TorchModel model{snapshot.settings, driver, layout.segments};
  std::size_t differ = 0;
  for (const TorchEvent& event : snapshot.traces[0]) {
    if (event.action == TorchAction::free_requested) model.request_free(event.address);
    if (event.action == TorchAction::free_completed) model.complete_free(event.address);
    if (event.action == TorchAction::segment_free) model.release(event.address);
    if (event.action != TorchAction::alloc) continue;
    if (model.allocate(event.bytes, event.stream) == event.address) continue;
    ++differ;
    break;  // nothing after it can be compared
  }
  return differ;
}

}  // namespace

TEST_CASE("the layout at the start of a traced program is reconstructed") {
  CHECK(rc::check("small blocks, streams, pending frees and released segments: exactly", [] {
    const Run run = random_run({}, false);
    Warnings warnings;
    const TorchLayout layout = initial_layout(run.snapshot, 0, warnings);
    RC_ASSERT(layout.segments == run.start);
    RC_ASSERT(layout.unplaced.empty());
    RC_ASSERT(warnings.lines() == std::vector<std::string>{});
  }));
  CHECK(rc::check("large blocks too, except unsplit rests that leave no trace", [] {
    const Run run = random_run({}, true);
    Warnings warnings;
    const TorchLayout layout = initial_layout(run.snapshot, 0, warnings);
    check_same_but_for_rests(layout.segments, run.start);
    RC_ASSERT(warnings.lines() == std::vector<std::string>{});
  }));
  CHECK(rc::check("rounding to steps between powers of two, and a limit on splitting", [] {
    TorchSettings settings;
    settings.roundup_power2_divisions.fill(4);
    settings.max_split_size = 22 * MiB;
    const Run run = random_run(settings, true);
    Warnings warnings;
    const TorchLayout layout = initial_layout(run.snapshot, 0, warnings);
    check_same_but_for_rests(layout.segments, run.start);
    RC_ASSERT(warnings.lines() == std::vector<std::string>{});
  }));
}

TEST_CASE("PyTorch's rules repeat the program's decisions from the reconstructed layout") {
  CHECK(rc::check("large and small", [] {
    const Run run = random_run({}, true);
    Warnings warnings;
    RC_ASSERT(other_decisions(run.snapshot, initial_layout(run.snapshot, 0, warnings)) == 0U);
  }));
}

TEST_CASE("unsplit rests with freed holes after them lead to the same decisions") {
  constexpr std::uint64_t kSizes[] = {3 * MiB + 5000, 5 * MiB + 77777, 9 * MiB + 123456,
                                      16 * MiB - 300000, MiB + 300000};
  for (std::uint64_t program = 0; program < 300; ++program) {
    std::mt19937_64 random{millrace::test::seed() * 1000 + program};
    TorchModel model{{}, Addresses{}};
    const auto step = [&] {
      const auto in_use = model.in_state(BlockState::allocated);
      if ((random() % 2 == 0 || in_use.empty()) && in_use.size() < 60) {
        model.allocate(program % 2 == 0 ? kSizes[random() % 5] : MiB + random() % (29 * MiB), 0);
      } else {
        const std::uint64_t address = in_use[random() % in_use.size()];
        model.request_free(address);
        model.complete_free(address);
      }
    };
    for (int i = 0; i < 600; ++i) step();
    const std::size_t begin = model.events().size();
    for (int i = 0; i < 600; ++i) step();
    const TorchSnapshot snapshot = traced(model, begin);
    Warnings warnings;
    INFO("program " << program);
    CHECK(other_decisions(snapshot, initial_layout(snapshot, 0, warnings)) == 0);
  }
}

TEST_CASE("an unsplit rest at the end of a segment is part of its block") {
  // 11.5 MiB from a segment of 12 MiB: the rest of 0.5 MiB is too small to split off.
  TorchModel model{{}, Addresses{}};
  const auto block = model.allocate(11 * MiB + MiB / 2, 0);
  const auto start = model.segments();
  REQUIRE(start[0].blocks.size() == 1);
  const std::size_t begin = model.events().size();
  model.request_free(block);
  model.complete_free(block);
  TorchLayout layout;
  CHECK(findings(traced(model, begin), layout).empty());
  CHECK(layout.segments == start);
}

TEST_CASE("an unsplit rest shows when the block after it is allocated for a while") {
  TorchModel model{{}, Addresses{}};
  const auto first = model.allocate(4 * MiB, 0);
  const auto second = model.allocate(4 * MiB, 0);
  model.request_free(first);
  model.complete_free(first);
  const auto with_rest = model.allocate(4 * MiB - 100'000, 0);  // takes the 4 MiB block unsplit
  REQUIRE(with_rest == first);
  model.request_free(second);
  model.complete_free(second);
  const auto start = model.segments();
  const std::size_t begin = model.events().size();
  CHECK(model.allocate(4 * MiB, 0) == second);
  for (const std::uint64_t address : {second, with_rest}) {
    model.request_free(address);
    model.complete_free(address);
  }
  TorchLayout layout;
  CHECK(findings(traced(model, begin), layout).empty());
  CHECK(layout.segments == start);
}

TEST_CASE("an unsplit rest is deduced from a free block that was passed over") {
  TorchModel model{{}, Addresses{}};
  const auto first = model.allocate(6 * MiB, 0);
  const auto second = model.allocate(8 * MiB, 0);
  model.allocate(5 * MiB, 0);  // takes the last 6 MiB of the segment
  model.request_free(first);
  model.complete_free(first);
  const auto with_rest = model.allocate(5 * MiB + MiB / 2, 0);
  REQUIRE(with_rest == first);
  model.request_free(second);
  model.complete_free(second);
  // 8.5 MiB after `with_rest` seem free. But 0.5 MiB of them belong to `with_rest`, so 8.25 MiB do
  // not fit.
  const std::size_t begin = model.events().size();
  model.allocate(8 * MiB + MiB / 4, 0);
  model.request_free(with_rest);
  model.complete_free(with_rest);
  const TorchSnapshot snapshot = traced(model, begin);
  TorchLayout layout;
  CHECK(findings(snapshot, layout).empty());
  CHECK(layout.segments[0].blocks[0].bytes == 5 * MiB + MiB * 3 / 4 + 512);
  CHECK(other_decisions(snapshot, layout) == 0);
}

TEST_CASE("mapping and unmapping of an expandable segment are undone") {
  // Mapped at the end: 0..4 MiB and 8..12 MiB. Mapped at the start: 0..2 MiB and 4..8 MiB.
  TorchSnapshot snapshot;
  snapshot.segments = {expandable_segment(kLayoutBase, 4 * MiB, false),
                       expandable_segment(kLayoutBase + 8 * MiB, 4 * MiB, false)};
  snapshot.traces = {{{TorchAction::segment_map, kLayoutBase + 2 * MiB, 2 * MiB, 0, 1},
                      {TorchAction::segment_map, kLayoutBase + 8 * MiB, 4 * MiB, 0, 2},
                      {TorchAction::alloc, kLayoutBase + 5 * MiB, 700, 0, 3},
                      {TorchAction::free_requested, kLayoutBase + 5 * MiB, 700, 0, 4},
                      {TorchAction::free_completed, kLayoutBase + 5 * MiB, 700, 0, 5},
                      {TorchAction::segment_unmap, kLayoutBase + 4 * MiB, 4 * MiB, 0, 6}}};
  TorchLayout layout;
  CHECK(findings(snapshot, layout).empty());
  CHECK(layout.segments ==
        std::vector<TorchSegment>{expandable_segment(kLayoutBase, 2 * MiB, false),
                                  expandable_segment(kLayoutBase + 4 * MiB, 4 * MiB, false)});
}

TEST_CASE("a mapping into the middle of an expandable segment joins both sides") {
  TorchSnapshot snapshot;
  snapshot.segments = {expandable_segment(kLayoutBase, 60 * MiB, true)};
  snapshot.traces = {{{TorchAction::segment_map, kLayoutBase + 20 * MiB, 20 * MiB, 0, 1}}};
  TorchLayout layout;
  CHECK(findings(snapshot, layout).empty());
  CHECK(layout.segments ==
        std::vector<TorchSegment>{expandable_segment(kLayoutBase, 20 * MiB, true),
                                  expandable_segment(kLayoutBase + 40 * MiB, 20 * MiB, true)});
}

TEST_CASE("blocks in an expandable segment have no unsplit rest") {
  TorchSnapshot snapshot;
  snapshot.segments = {expandable_segment(kLayoutBase, 20 * MiB, true)};
  snapshot.traces = {{{TorchAction::free_requested, kLayoutBase, 20 * MiB - 1024, 0, 1},
                      {TorchAction::free_completed, kLayoutBase, 20 * MiB - 1024, 0, 2}}};
  TorchLayout layout;
  CHECK(findings(snapshot, layout).empty());
  CHECK(layout.segments[0].blocks ==
        std::vector<TorchBlock>{
            {kLayoutBase, 20 * MiB - 1024, 20 * MiB - 1024, BlockState::allocated},
            {kLayoutBase + 20 * MiB - 1024, 1024, 0, BlockState::inactive}});
}

TEST_CASE("a used block that no segment holds gives a warning, and the others are placed") {
  TorchSnapshot snapshot;
  snapshot.segments = {expandable_segment(kLayoutBase, 2 * MiB, false)};
  snapshot.traces = {{{TorchAction::free_requested, 512, 100, 0, 1},
                      {TorchAction::free_completed, 512, 100, 0, 2},
                      {TorchAction::free_requested, kLayoutBase, 512, 0, 3},
                      {TorchAction::free_completed, kLayoutBase, 512, 0, 4}}};
  TorchLayout layout;
  CHECK(findings(snapshot, layout) ==
        std::vector<std::string>{
            "a block that the trace uses is in no segment (device_traces[0][1], address 0x200)"});
  CHECK(layout.unplaced == std::vector<TorchBlock>{{512, 512, 100, BlockState::allocated}});
  CHECK(layout.segments[0].blocks[0] == TorchBlock{kLayoutBase, 512, 512, BlockState::allocated});
}

TEST_CASE("contradictions between trace and snapshot give warnings, and a complete layout") {
  TorchSnapshot snapshot;
  snapshot.segments = {expandable_segment(kLayoutBase, 2 * MiB, false)};
  auto& blocks = snapshot.segments[0].blocks;
  blocks = {{kLayoutBase, 1024, 1024, BlockState::allocated},
            {kLayoutBase + 1024, 2 * MiB - 1024, 0, BlockState::inactive}};
  const auto note_of = [&](std::vector<TorchEvent> events) {
    snapshot.traces = {std::move(events)};
    TorchLayout layout;
    const auto lines = findings(snapshot, layout);
    std::uint64_t at = 0;
    for (const TorchSegment& segment : layout.segments) {
      at = segment.address;
      for (const TorchBlock& block : segment.blocks) {
        CHECK(block.address == at);
        at += block.bytes;
      }
      CHECK(at == segment.address + segment.bytes);
    }
    return lines.empty() ? std::string{} : lines[0];
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(note_of({{TorchAction::alloc, kLayoutBase + 4096, 512, 0, 1}}),
             ContainsSubstring("never freed"));
  CHECK_THAT(note_of({{TorchAction::alloc, kLayoutBase, 100, 0, 1}}), ContainsSubstring("another"));
  CHECK_THAT(note_of({{TorchAction::free_completed, kLayoutBase + 512, 512, 0, 1}}),
             ContainsSubstring("two blocks in use overlap"));
  CHECK_THAT(note_of({{TorchAction::free_requested, kLayoutBase, 1024, 0, 1}}),
             ContainsSubstring("without being allocated"));
  CHECK_THAT(note_of({{TorchAction::free_requested, kLayoutBase + 8192, 1024, 0, 1}}),
             ContainsSubstring("neither the snapshot nor the trace"));
  CHECK_THAT(note_of({{TorchAction::segment_alloc, kLayoutBase, 4 * MiB, 0, 1}}),
             ContainsSubstring("a segment is allocated and never freed"));
  CHECK_THAT(note_of({{TorchAction::segment_alloc, kLayoutBase, 2 * MiB, 0, 1}}),
             ContainsSubstring("in use before its segment exists"));
  CHECK_THAT(note_of({{TorchAction::segment_free, kLayoutBase + MiB, 2 * MiB, 0, 1}}),
             ContainsSubstring("is there later"));
  CHECK_THAT(note_of({{TorchAction::segment_map, kLayoutBase + 2 * MiB, 2 * MiB, 0, 1}}),
             ContainsSubstring("never unmapped"));
}

TEST_CASE("overlapping segments of a snapshot give a warning, and one of them is left out") {
  TorchSnapshot snapshot;
  snapshot.segments = {expandable_segment(kLayoutBase, 4 * MiB, false),
                       expandable_segment(kLayoutBase + 2 * MiB, 4 * MiB, false)};
  TorchLayout layout;
  CHECK(findings(snapshot, layout).size() == 1);
  CHECK(layout.segments.size() == 1);
}

TEST_CASE("from the reconstructed layout, PyTorch's rules give PyTorch's addresses") {
  const auto data = millrace::test::data_folder();
  if (!data) SKIP("no sample data (MILLRACE_DATA)");
  for (const char* const name :
       {"medium_128_inference", "medium_512_inference", "medium_128_training"}) {
    INFO(name);
    const auto log = read_trace(*data / "traces/pytorch" / (name + std::string{".pickle"}));
    TorchModel model{log.snapshot->settings, [](std::uint64_t) { return std::uint64_t{0}; },
                     log.initial[0].segments};
    std::size_t same = 0;
    std::size_t total = 0;
    for (const TorchEvent& event : log.snapshot->traces[0]) {
      if (event.action == TorchAction::free_requested) model.request_free(event.address);
      if (event.action == TorchAction::free_completed) model.complete_free(event.address);
      if (event.action != TorchAction::alloc) continue;
      ++total;
      same += model.allocate(event.bytes, event.stream) == event.address ? 1 : 0;
    }
    CHECK(total > 1000);
    CHECK(same == total);
    CHECK(model.segments() == log.snapshot->segments);
  }
}
