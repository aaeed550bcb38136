#include <algorithm>

#include "test/pipeline/schedule/scripted_parts.hpp"
#include "test/support/catch.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using Catch::Matchers::ContainsSubstring;
using Log = std::vector<std::string>;
using Numbers = std::vector<std::size_t>;

/// The log of each call of `progress`, up to the call that returns false.
std::vector<Log> steps(ScriptedPipeline& parts, BatchSource& source) {
  std::vector<Log> steps;
  bool more = true;
  while (more) {
    more = parts.pipeline->progress(source);
    steps.push_back(parts.script.take());
  }
  return steps;
}

}  // namespace

TEST_CASE("base: the next batch is drawn first, and copied between backward and optimizer") {
  ScriptedPipeline parts{PipelineKind::base};
  ScriptedSource source = parts.source(0, 2);
  const std::vector<Log> log = steps(parts, source);
  REQUIRE(log.size() == 3);
  CHECK(log[0] == Log{"draw 0", "copy", "draw 1", "zero", "start 0 on main", "receive 0",
                      "arrange 0", "look up 0 on main", "forward 0", "backward 0",
                      "update 0 on main", "copy", "optimizer 0"});
  CHECK(log[1] == Log{"end", "zero", "start 1 on main", "receive 1", "arrange 1",
                      "look up 1 on main", "forward 1", "backward 1", "update 1 on main",
                      "optimizer 1"});
  CHECK(log[2] == Log{});
}

TEST_CASE("sparse-dist: the next exchange starts before forward and is received after it") {
  ScriptedPipeline parts{PipelineKind::sparse_dist};
  ScriptedSource source = parts.source(0, 3);
  const std::vector<Log> log = steps(parts, source);
  REQUIRE(log.size() == 4);
  CHECK(log[0] == Log{"draw 0", "copy", "start 0 on data-dist", "receive 0", "draw 1", "copy",
                      "zero", "start 1 on data-dist", "draw 2", "copy", "arrange 0",
                      "look up 0 on main", "forward 0", "receive 1", "backward 0",
                      "update 0 on main", "optimizer 0"});
  CHECK(log[1] == Log{"zero", "start 2 on data-dist", "end", "arrange 1", "look up 1 on main",
                      "forward 1", "receive 2", "backward 1", "update 1 on main", "optimizer 1"});
  CHECK(log[2] == Log{"zero", "arrange 2", "look up 2 on main", "forward 2", "backward 2",
                      "update 2 on main", "optimizer 2"});
  CHECK(log[3] == Log{});
}

TEST_CASE("sparse-dist with precise waits: features are arranged as soon as they are received") {
  ScriptedPipeline parts{PipelineKind::sparse_dist, Waits::precise};
  ScriptedSource source = parts.source(0, 3);
  const std::vector<Log> log = steps(parts, source);
  CHECK(log[0] == Log{"draw 0", "copy", "start 0 on data-dist", "receive 0", "arrange 0", "draw 1",
                      "copy", "zero", "start 1 on data-dist", "draw 2", "copy", "look up 0 on main",
                      "forward 0", "receive 1", "arrange 1", "backward 0", "update 0 on main",
                      "optimizer 0"});
  CHECK(log[1] == Log{"zero", "start 2 on data-dist", "end", "look up 1 on main", "forward 1",
                      "receive 2", "arrange 2", "backward 1", "update 1 on main", "optimizer 1"});
}

TEST_CASE("prefetch-sparse-dist: the next prefetch is after forward, the next exchange is last") {
  ScriptedPipeline parts{PipelineKind::prefetch_sparse_dist};
  ScriptedSource source = parts.source(0, 3);
  const std::vector<Log> log = steps(parts, source);
  REQUIRE(log.size() == 4);
  CHECK(log[0] == Log{"draw 0",
                      "copy",
                      "start 0 on data-dist",
                      "receive 0",
                      "arrange 0",
                      "prefetch 0 on prefetch",
                      "draw 1",
                      "copy",
                      "start 1 on data-dist",
                      "zero",
                      "draw 2",
                      "copy",
                      "receive 1",
                      "look up 0 on main",
                      "forward 0",
                      "arrange 1",
                      "prefetch 1 on prefetch",
                      "backward 0",
                      "update 0 on main",
                      "optimizer 0",
                      "start 2 on data-dist"});
  CHECK(log[1] == Log{"zero", "end", "receive 2", "look up 1 on main", "forward 1", "arrange 2",
                      "prefetch 2 on prefetch", "backward 1", "update 1 on main", "optimizer 1"});
  CHECK(log[2] == Log{"zero", "look up 2 on main", "forward 2", "backward 2", "update 2 on main",
                      "optimizer 2"});
  CHECK(log[3] == Log{});
}

TEST_CASE("prefetch-sparse-dist refuses streams without a prefetch stream") {
  PipelineRig rig{{.kind = PipelineKind::sparse_dist}};
  CHECK_THROWS_WITH(rig.make({.kind = PipelineKind::prefetch_sparse_dist}, *rig.model),
                    Catch::Matchers::ContainsSubstring("needs a prefetch stream"));
}

TEST_CASE("fused-sparse-dist: a batch is looked up after the update, in one of three places") {
  const LookupPosition position = GENERATE(from_range(kLookupPositions));
  ScriptedPipeline parts{
      PipelineCase{.kind = PipelineKind::fused_sparse_dist, .lookup = {.position = position}}};
  ScriptedSource source = parts.source(0, 3);
  const std::vector<Log> log = steps(parts, source);
  REQUIRE(log.size() == 4);
  Log expected;
  switch (position) {
    case LookupPosition::after_optimizer:
      expected = {"arrange 1",
                  "look up 1 on data-dist",
                  "zero",
                  "start 2 on data-dist",
                  "end",
                  "forward 1",
                  "receive 2",
                  "backward 1",
                  "update 1 on data-dist",
                  "optimizer 1"};
      break;
    case LookupPosition::before_optimizer:
      expected = {"zero",
                  "start 2 on data-dist",
                  "end",
                  "forward 1",
                  "receive 2",
                  "backward 1",
                  "update 1 on data-dist",
                  "arrange 2",
                  "look up 2 on data-dist",
                  "optimizer 1"};
      break;
    case LookupPosition::after_data_dist:
      expected = {"zero",
                  "start 2 on data-dist",
                  "end",
                  "arrange 1",
                  "look up 1 on data-dist",
                  "forward 1",
                  "receive 2",
                  "backward 1",
                  "update 1 on data-dist",
                  "optimizer 1"};
      break;
  }
  CHECK(log[1] == expected);
}

TEST_CASE("semi-sync: from the first stale step on, the next lookup is before backward") {
  ScriptedPipeline parts{PipelineCase{.kind = PipelineKind::semi_sync,
                                      .stale = {.start_batch = 1, .stash_gradients = true}}};
  ScriptedSource source = parts.source(0, 5);
  const std::vector<Log> log = steps(parts, source);
  REQUIRE(log.size() == 6);
  CHECK(log[0] == Log{"draw 0",
                      "copy",
                      "start 0 on data-dist",
                      "receive 0",
                      "draw 1",
                      "copy",
                      "start 1 on data-dist",
                      "receive 1",
                      "draw 2",
                      "copy",
                      "zero",
                      "start 2 on data-dist",
                      "arrange 0",
                      "look up 0 on main",
                      "forward 0",
                      "draw 3",
                      "copy",
                      "receive 2",
                      "backward 0",
                      "update 0 on main",
                      "optimizer 0",
                      "arrange 1",
                      "look up 1 on main"});
  CHECK(log[1] == Log{"zero", "start 3 on data-dist", "forward 1", "draw 4", "copy", "arrange 2",
                      "look up 2 on main", "receive 3", "backward 1", "update 1 on main",
                      "swap 1"});
  CHECK(log[2] == Log{"zero", "start 4 on data-dist", "forward 2", "end", "arrange 3",
                      "look up 3 on main", "receive 4", "backward 2", "update 2 on main", "swap 2",
                      "optimizer 2"});
}

TEST_CASE("semi-sync: stashed gradients belong to one model and are never used for another") {
  ScriptedPipeline parts{PipelineCase{.kind = PipelineKind::semi_sync,
                                      .stale = {.start_batch = 0, .stash_gradients = true}}};
  ScriptedSource source = parts.source(0, 9);
  const auto steps_optimizer = [&] {
    static_cast<void>(parts.script.take());
    REQUIRE(parts.pipeline->progress(source));
    const Log log = parts.script.take();
    return std::any_of(log.begin(), log.end(),
                       [](const std::string& line) { return line.find("optimizer") == 0; });
  };
  CHECK(!steps_optimizer());  // nothing is stashed yet
  CHECK(steps_optimizer());
  parts.pipeline->attach(parts.pipeline->detach());
  CHECK(steps_optimizer());
  ScriptedModel other{parts.script};
  static_cast<void>(parts.pipeline->detach());
  parts.pipeline->attach(other);
  CHECK(parts.pipeline->stashed_gradients() == nullptr);
  CHECK(!steps_optimizer());
  CHECK(steps_optimizer());
}

TEST_CASE("only semi-sync stashes gradients, and steps continue from the given number") {
  ScriptedPipeline base{PipelineKind::base};
  CHECK(base.pipeline->stashed_gradients() == nullptr);
  CHECK_THROWS_AS(base.pipeline->stash_gradients({}), std::logic_error);
  ScriptedPipeline parts{
      PipelineCase{.kind = PipelineKind::semi_sync, .stale = {.start_batch = 41}}};
  CHECK_THROWS_AS(parts.pipeline->stash_gradients({}), std::logic_error);
  ScriptedSource source = parts.source(0, 6);
  parts.pipeline->count_from(40);
  for (const bool stale : {false, true, true}) {
    REQUIRE(parts.pipeline->progress(source));
    const Log log = parts.script.take();
    const auto place = [&](const std::string& start) {
      return std::find_if(log.rbegin(), log.rend(),
                          [&](const std::string& line) { return line.find(start) == 0; });
    };
    CHECK((place("look up") > place("optimizer")) == stale);  // found from the end
  }
  CHECK(parts.pipeline->steps() == 43);
}

TEST_CASE("lookup and stale options change exactly the pipelines whose traits have them") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const auto log = [&](const PipelineCase& what) {
    ScriptedPipeline parts{what};
    ScriptedSource source = parts.source(0, 5);
    return steps(parts, source);
  };
  const std::vector<Log> standard = log({.kind = kind});
  const LookupOptions lookup{.position = LookupPosition::after_data_dist,
                             .stream = LookupStream::main};
  CHECK((log({.kind = kind, .lookup = lookup}) != standard) == traits_of(kind).lookup_options);
  const StaleOptions stale{.start_batch = 1};
  CHECK((log({.kind = kind, .stale = stale}) != standard) == traits_of(kind).stale);
}

TEST_CASE("fused-sparse-dist looks up and updates on the given stream") {
  const LookupStream stream = GENERATE(from_range(kLookupStreams));
  const std::string name = stream == LookupStream::own ? "lookup" : std::string{to_string(stream)};
  ScriptedPipeline parts{
      PipelineCase{.kind = PipelineKind::fused_sparse_dist, .lookup = {.stream = stream}}};
  ScriptedSource source = parts.source(0, 4);
  while (parts.pipeline->progress(source)) {
  }
  std::size_t found = 0;
  for (const std::string& line : parts.script.take()) {
    if (line.find("look up") != 0 && line.find("update") != 0) continue;
    ++found;
    CHECK(line.substr(line.find(" on ") + 4) == name);
  }
  CHECK(found == 8);
}

TEST_CASE("a lookup ahead is dropped at detach and repeated for the next model") {
  ScriptedPipeline parts{PipelineCase{.kind = PipelineKind::fused_sparse_dist,
                                      .lookup = {.position = LookupPosition::before_optimizer}}};
  ScriptedSource source = parts.source(0, 4);
  REQUIRE(parts.pipeline->progress(source));
  static_cast<void>(parts.script.take());
  parts.pipeline->attach(parts.pipeline->detach());
  REQUIRE(parts.pipeline->progress(source));
  const Log log = parts.script.take();
  CHECK(std::count(log.begin(), log.end(), "look up 1 on data-dist") == 1);
  CHECK(std::count(log.begin(), log.end(), "arrange 1") == 0);
}

TEST_CASE("fused-sparse-dist refuses models that it cannot train exactly, with the reason") {
  const PipelineCase exact{.kind = PipelineKind::fused_sparse_dist,
                           .model = RigModel::sparse_nn_plain};
  CHECK_NOTHROW(PipelineRig{exact}.make());

  PipelineCase what = exact;
  what.model = RigModel::sparse_nn;
  PipelineRig rig{what};
  CHECK_THROWS_WITH(rig.make(),
                    ContainsSubstring("position weights") && ContainsSubstring("sparse-dist"));
  what.lookup.order_after_dense = true;
  auto ordered = rig.make(what, *rig.model);
  CHECK(ordered->detach().dense_parameters_of_lookups() != "");
  what.lookup.position = LookupPosition::before_optimizer;
  CHECK_THROWS_WITH(rig.make(what, *rig.model), ContainsSubstring("after-optimizer"));

  PipelineRig other{exact};
  auto pipeline = other.make();
  pipeline->detach();
  CHECK_THROWS_WITH(pipeline->attach(*rig.model), ContainsSubstring("position weights"));
  CHECK_THROWS_AS(pipeline->drain(), std::logic_error);
}

TEST_CASE("lookups on their own stream are refused with another pipeline's streams") {
  PipelineRig rig{{.kind = PipelineKind::sparse_dist}};
  const PipelineCase what{.kind = PipelineKind::fused_sparse_dist,
                          .lookup = {.stream = LookupStream::own}};
  CHECK_THROWS_WITH(rig.make(what, *rig.model), ContainsSubstring("streams"));
}

TEST_CASE("sparse-dist-lite: the exchange is on main, the next batch is copied after backward") {
  ScriptedPipeline parts{PipelineKind::sparse_dist_lite};
  ScriptedSource source = parts.source(0, 2);
  const std::vector<Log> log = steps(parts, source);
  CHECK(log[0] == Log{"draw 0", "copy", "zero", "start 0 on main", "receive 0", "arrange 0",
                      "look up 0 on main", "forward 0", "backward 0", "update 0 on main", "draw 1",
                      "copy", "optimizer 0"});
  CHECK(log[1] == Log{"zero", "start 1 on main", "receive 1", "arrange 1", "look up 1 on main",
                      "forward 1", "backward 1", "update 1 on main", "end", "optimizer 1"});
}

TEST_CASE("a source of 0, 1 or 2 batches is trained to its end") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const std::size_t batches = GENERATE(0, 1, 2);
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, batches);
  CHECK(steps(parts, source).size() == batches + 1);
  CHECK(parts.model.trained.size() == batches);
  CHECK(parts.pipeline->steps() == batches);
  CHECK(parts.pipeline->held() == 0);
  CHECK_FALSE(parts.pipeline->progress(source));
}

TEST_CASE("between steps a pipeline holds its known number of batches and exchanges") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const ExpectedPipeline known = expected_of(kind);
  const bool starts_last = kind == PipelineKind::prefetch_sparse_dist;
  const bool under_way = known.at_rest > 1 && (starts_last || waits == Waits::coarse);
  ScriptedPipeline parts{kind, waits};
  ScriptedSource source = parts.source(0, 9);
  for (int step = 0; step < 6; ++step) {
    REQUIRE(parts.pipeline->progress(source));
    CHECK(parts.pipeline->held() == known.at_rest);
    CHECK(parts.exchange.alive() == (under_way ? 1 : 0));
  }
  CHECK(parts.pipeline->most_held() == known.at_peak);
}

TEST_CASE("sources in turn are trained as one sequence") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  for (std::size_t begin = 0; begin < 9; begin += 3) {
    ScriptedSource source = parts.source(begin, begin + 3);
    while (parts.pipeline->progress(source)) {
    }
  }
  CHECK(parts.model.trained == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("a change of sources while batches are in flight trains each batch once") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  ScriptedPipeline parts{kind, waits};
  ScriptedSource first = parts.source(0, 3), second = parts.source(3, 6);
  const std::size_t steps_of_first = GENERATE(0, 1, 2, 3);
  for (std::size_t i = 0; i < steps_of_first; ++i) REQUIRE(parts.pipeline->progress(first));
  while (parts.pipeline->progress(second)) {
  }
  while (parts.pipeline->progress(first)) {
  }
  Numbers all = parts.model.trained;
  CHECK(all.size() == 6);
  CHECK(std::set<std::size_t>{all.begin(), all.end()}.size() == 6);
  CHECK(parts.exchange.alive() == 0);
}

TEST_CASE("without execute_all_batches, batches in flight wait for the next source") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const std::size_t rest = expected_of(kind).at_rest;
  ScriptedPipeline parts{kind, Waits::coarse, false};
  ScriptedSource first = parts.source(0, 5), second = parts.source(5, 8);
  while (parts.pipeline->progress(first)) {
  }
  CHECK(parts.model.trained.size() == 5 - rest);
  CHECK(parts.pipeline->held() == rest);
  CHECK_FALSE(parts.pipeline->progress(first));

  while (parts.pipeline->progress(second)) {
  }
  CHECK(parts.model.trained.size() == 8 - rest);
  parts.pipeline->drain();
  CHECK(parts.model.trained == Numbers{0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("drain trains the batches in flight and draws no batch") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, 9);
  REQUIRE(parts.pipeline->progress(source));
  const std::size_t held = parts.pipeline->held();
  static_cast<void>(parts.script.take());
  parts.pipeline->drain();
  for (const std::string& line : parts.script.take()) CHECK(line.find("draw") != 0);
  CHECK(parts.model.trained.size() == 1 + held);
  CHECK(parts.pipeline->held() == 0);
  while (parts.pipeline->progress(source)) {
  }
  CHECK(parts.model.trained.size() == 9);
}

TEST_CASE("a reset drops the batches in flight, and the source continues after them") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, 9);
  REQUIRE(parts.pipeline->progress(source));
  const std::size_t held = parts.pipeline->held();
  parts.pipeline->reset();
  CHECK(parts.pipeline->held() == 0);
  CHECK(parts.exchange.alive() == 0);
  CHECK(parts.rig.live_blocks() == 0);
  while (parts.pipeline->progress(source)) {
  }
  CHECK(parts.model.trained.size() == 9 - held);
}

TEST_CASE("a detached model is not used, and the attached model gets the batches in flight") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, 4);
  REQUIRE(parts.pipeline->progress(source));
  CHECK(&parts.pipeline->detach() == &parts.model);
  CHECK_THROWS_AS(parts.pipeline->progress(source), std::logic_error);
  CHECK_THROWS_AS(parts.pipeline->drain(), std::logic_error);
  CHECK_THROWS_AS(parts.pipeline->detach(), std::logic_error);

  ScriptedModel other{parts.script};
  parts.pipeline->attach(other);
  REQUIRE(parts.pipeline->progress(source));
  CHECK(&parts.pipeline->detach() == &other);
  parts.pipeline->attach(parts.model);
  while (parts.pipeline->progress(source)) {
  }
  CHECK(other.trained == Numbers{1});
  CHECK(parts.model.trained == Numbers{0, 2, 3});
}
