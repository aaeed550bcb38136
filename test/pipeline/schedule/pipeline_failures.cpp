#include "millrace/device/fault.hpp"
#include "test/pipeline/schedule/scripted_parts.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using Numbers = std::vector<std::size_t>;

/// Trains to the end and continues after each failure. @return the number of failures
std::size_t train_all(TrainPipeline& pipeline, BatchSource& source) {
  std::size_t failures = 0;
  for (bool more = true; more;) {
    try {
      more = pipeline.progress(source);
    } catch (const Scripted&) {
      ++failures;
    }
  }
  return failures;
}

std::string on_stream(PipelineKind kind) { return " on " + expected_of(kind).exchange_on; }

}  // namespace

TEST_CASE("an exception of source, copy or exchange loses no batch and trains none twice") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const std::size_t batch = GENERATE(0, 1, 2, 5);
  const std::string what = GENERATE("draw", "start", "receive", "arrange", "copy", "end");
  ScriptedPipeline parts{kind, waits};
  std::string line = what + ' ' + std::to_string(batch);
  if (what == "start") line += on_stream(kind);
  if (what == "copy" || what == "end") line = what;
  parts.script.fail(line);
  INFO(to_string(kind) << ", " << line);

  ScriptedSource source = parts.source(0, 6);
  CHECK(train_all(*parts.pipeline, source) == 1);
  CHECK(parts.model.trained == Numbers{0, 1, 2, 3, 4, 5});
  CHECK(parts.model.abandoned == Numbers{});
  CHECK(parts.pipeline->steps() == 6);
  CHECK(parts.exchange.alive() == 0);
  CHECK(parts.rig.live_blocks() == 0);
}

TEST_CASE("an exception for a later batch is thrown after the current step is done") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, 6);
  REQUIRE(parts.pipeline->progress(source));
  parts.script.fail(fmt::format("draw {}", 1 + expected_of(kind).at_rest));
  CHECK_THROWS_AS(parts.pipeline->progress(source), Scripted);
  CHECK(parts.model.trained == Numbers{0, 1});
  CHECK(parts.pipeline->steps() == 2);
}

TEST_CASE("an exception of the model drops its batch and no other") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const std::size_t batch = GENERATE(0, 1, 3, 5);
  const std::string what = GENERATE("forward {}", "backward {}", "update {} on {}", "optimizer {}");
  ScriptedPipeline parts{kind, waits};
  parts.script.fail(fmt::format(fmt::runtime(what), batch, expected_of(kind).update_on));
  INFO(to_string(kind) << ", " << what << ' ' << batch);

  ScriptedSource source = parts.source(0, 6);
  CHECK(train_all(*parts.pipeline, source) == 1);
  Numbers others{0, 1, 2, 3, 4, 5};
  std::erase(others, batch);
  CHECK(parts.model.trained == others);
  CHECK(parts.model.abandoned == Numbers{batch});
  CHECK(parts.pipeline->steps() == 5);
  CHECK(parts.rig.live_blocks() == 0);
}

TEST_CASE("a reset also drops a batch that was drawn and could not be copied") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, 3);
  parts.script.fail("copy");
  CHECK_THROWS_AS(parts.pipeline->progress(source), Scripted);
  CHECK(parts.rig.caching_pinned.statistics().live_blocks > 0);
  parts.pipeline->reset();
  CHECK(parts.rig.caching_pinned.statistics().live_blocks == 0);
  CHECK(train_all(*parts.pipeline, source) == 0);
  CHECK(parts.model.trained == Numbers{1, 2});
}

TEST_CASE("a failure to zero the gradients loses no batch") {
  const PipelineKind kind = GENERATE(from_range(kPipelineKinds));
  ScriptedPipeline parts{kind};
  ScriptedSource source = parts.source(0, 4);
  REQUIRE(parts.pipeline->progress(source));
  parts.script.fail("zero");
  CHECK_THROWS_AS(parts.pipeline->progress(source), Scripted);
  CHECK(parts.pipeline->steps() == 1);
  CHECK(train_all(*parts.pipeline, source) == 0);
  CHECK(parts.model.trained == Numbers{0, 1, 2, 3});
}

TEST_CASE("a source that fails once does not change the trained bits") {
  const std::vector<float> expected = plainly_trained(8);
  PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds)),
                    .waits = GENERATE(Waits::coarse, Waits::precise)};
  what.schedule = GENERATE(0, 1, 2) == 0 ? 0 : test::seed() + 7;
  PipelineRig rig{what};
  const auto pipeline = rig.make();
  RigSource source{rig, 0, 8};
  bool failed = false;
  source.before = [&](std::size_t number) {
    if (number != 4 || std::exchange(failed, true)) return;
    throw Scripted{"the source"};
  };
  CHECK(train_all(*pipeline, source) == 1);
  CHECK(rig.parameters() == expected);
  CHECK(rig.races() == std::vector<std::string>{});
}

namespace {

/// Fails one driver call of a run, which then continues. @return how often the pipeline threw
std::size_t run_with_failure(const PipelineCase& what, std::uint64_t call) {
  PipelineRig rig{what};
  auto pipeline = rig.make();
  RigSource source{rig, 0, 6};
  FaultInjector faults{rig.device};
  faults.fail_call(call, ErrorCode::unknown);
  std::size_t failed = 0;
  for (bool more = true; more;) {
    try {
      more = pipeline->progress(source);
    } catch (const DeviceError&) {
      ++failed;
    }
  }
  INFO(what.name() << ", call " << call);
  CHECK(pipeline->held() == 0);
  CHECK(pipeline->steps() >= 5);  // the failed call may have cost one training step
  pipeline.reset();
  CHECK(rig.live_blocks() == 0);
  CHECK(rig.caching_pinned.statistics().live_blocks == 0);
  CHECK(rig.races() == std::vector<std::string>{});
  REQUIRE_NOTHROW(rig.caching.check_invariants());
  return failed;
}

}  // namespace

TEST_CASE("a pipeline continues without a race after any driver call that fails") {
  const PipelineCase what{.kind = GENERATE(from_range(kPipelineKinds)),
                          .copy = GENERATE(CopyMethod::side_stream, CopyMethod::in_place,
                                           CopyMethod::precise, CopyMethod::ring),
                          .waits = GENERATE(Waits::coarse, Waits::precise)};
  std::size_t failed = 0;
  for (std::uint64_t call = 1; call < 400; call += 13) failed += run_with_failure(what, call);
  CHECK(failed > 10);
}

TEST_CASE("a driver call that fails never makes a lookup on its own stream lose a wait") {
  const PipelineCase what{.kind = PipelineKind::fused_sparse_dist,
                          .waits = GENERATE(Waits::coarse, Waits::precise),
                          .lookup = {.stream = LookupStream::own}};
  std::size_t failed = 0;
  for (std::uint64_t call = 100; call < 240; ++call) failed += run_with_failure(what, call);
  CHECK(failed > 50);
}

TEST_CASE("a prefetch that throws loses no batch") {
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  const std::size_t batch = GENERATE(0, 1, 3, 5);
  ScriptedPipeline parts{PipelineKind::prefetch_sparse_dist, waits};
  parts.script.fail(fmt::format("prefetch {} on prefetch", batch));
  ScriptedSource source = parts.source(0, 6);
  CHECK(train_all(*parts.pipeline, source) == 1);
  CHECK(parts.model.trained == Numbers{0, 1, 2, 3, 4, 5});
  CHECK(parts.model.abandoned == Numbers{});
  CHECK(parts.rig.live_blocks() == 0);
}

TEST_CASE("cached tables keep their bits after a driver call that fails if no step is dropped") {
  const PipelineCase what{.kind = PipelineKind::prefetch_sparse_dist,
                          .waits = GENERATE(Waits::coarse, Waits::precise),
                          .model = RigModel::sparse_nn_long,
                          .cache = TableCache{0.05}};
  const std::vector<float> expected = plainly_trained(6, what.model);
  std::size_t failed = 0, whole = 0;
  for (std::uint64_t call = 3; call < 500; call += 11) {
    PipelineRig rig{what};
    auto pipeline = rig.make();
    RigSource source{rig, 0, 6};
    {
      FaultInjector faults{rig.device};
      faults.fail_call(call, ErrorCode::unknown);
      for (bool more = true; more;) {
        try {
          more = pipeline->progress(source);
        } catch (const DeviceError&) {
          ++failed;
        }
      }
    }
    const bool all = pipeline->steps() == 6;
    pipeline.reset();
    INFO(what.name() << ", call " << call);
    if (all) CHECK(rig.parameters() == expected);
    whole += all ? 1 : 0;
    CHECK(rig.races() == std::vector<std::string>{});
    rig.model.reset();
    CHECK(rig.live_blocks() == 0);
  }
  CHECK(failed > 20);
  CHECK(whole > 10);
}
