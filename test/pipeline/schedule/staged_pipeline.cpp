#include "millrace/pipeline/schedule/staged_pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "millrace/device/fault.hpp"
#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kRows = 64;
constexpr std::size_t kBytes = kRows * sizeof(float);
constexpr std::size_t kRoom = std::size_t{2} << 20;  // bytes per batch, so that memory is reused
constexpr std::size_t kStagedBatches = 10;

/// A batch of numbers. A `forgetful` batch records no use.
struct Rows {
  BatchTensor values;
  std::size_t number = 0;
  bool forgetful = false;

  void record_use(StreamRef stream) {
    if (!forgetful) values.record_use(stream);
  }
};

/// Three stages on three streams. Main adds up their results.
struct Scene {
  explicit Scene(std::uint64_t schedule = 0, const std::string& left_out = "")
      : rig({.schedule = schedule, .left_out = left_out}) {
    rig.device.fill(total.data(), 0, sizeof(float), rig.streams.main.handle());
  }

  void launch(const Rows& rows, Access access, float factor, float summand, const Stream& stream) {
    rig.device.launch({.name = "stage",
                       .views = {{rows.values.data(), kBytes, access}},
                       .cost = {.fixed = Nanoseconds{3000}},
                       .host =
                           [=](const KernelContext& kernel) {
                             for (float& value : kernel.as<float>(0)) {
                               value = (factor == 0 ? 0 : factor * value) + summand;
                             }
                           }},
                      stream.handle());
  }

  std::vector<Stage<Rows>> stages() {
    const auto begin = [this](Rows& rows) {
      say("begin", rows);
      rows.values = {rig.batches, kRoom, rig.streams.copy};
      launch(rows, Access::write, 0, static_cast<float>(rows.number), rig.streams.copy);
    };
    const auto work = [this](const char* name, Stream& stream) {
      return [this, name, &stream](Rows& rows) {
        say(name, rows);
        launch(rows, Access::read_write, 1.5F, 0.25F, stream);
      };
    };
    return {{"begin", rig.streams.copy, begin},
            {"middle", rig.streams.data_dist, work("middle", rig.streams.data_dist)},
            {"last", side, work("last", side)}};
  }

  StagedPipeline<Rows>::Source source(std::size_t batches) {
    return [this, batches]() -> std::optional<Rows> {
      if (drawn == batches) return std::nullopt;
      return Rows{{}, drawn++, forgetful};
    };
  }

  /// Uses the rows on main, as a caller would.
  void consume(const Rows& rows) {
    rig.device.launch({.name = "add",
                       .views = {{rows.values.data(), kBytes, Access::read},
                                 {total.data(), sizeof(float), Access::read_write}},
                       .cost = {.fixed = Nanoseconds{3000}},
                       .host =
                           [](const KernelContext& kernel) {
                             for (const float value : kernel.as<const float>(0)) {
                               kernel.as<float>(1)[0] = 0.5F * kernel.as<float>(1)[0] + value;
                             }
                           }},
                      rig.streams.main.handle());
    numbers.push_back(rows.number);
  }

  float result() {
    float result = 0;
    rig.device.copy(&result, total.data(), sizeof(float), CopyKind::device_to_host,
                    rig.streams.main.handle());
    rig.streams.main.synchronize();
    return result;
  }

  void say(const char* what, const Rows& rows) {
    const std::string line = fmt::format("{} {}", what, rows.number);
    if (line == failing) {
      failing.clear();
      throw std::runtime_error{line};
    }
    log.push_back(line);
  }

  PipelineRig rig;
  Stream side{rig.ordered, {.name = "side"}};
  Array<float> total{rig.memory, 1, rig.streams.main};
  bool forgetful = false;
  std::size_t drawn = 0;
  std::vector<std::size_t> numbers;
  std::vector<std::string> log;
  std::string failing;
};

float expected(std::size_t batches) {
  float total = 0;
  for (std::size_t number = 0; number < batches; ++number) {
    const float value = 1.5F * (1.5F * static_cast<float>(number) + 0.25F) + 0.25F;
    for (std::size_t row = 0; row < kRows; ++row) total = 0.5F * total + value;
  }
  return total;
}

std::vector<std::string> of_stage(const std::vector<std::string>& log, const std::string& stage) {
  std::vector<std::string> lines;
  for (const std::string& line : log) {
    if (line.find(stage) == 0) lines.push_back(line);
  }
  return lines;
}

}  // namespace

TEST_CASE("staged: every schedule gives the results of the plain loop, without a race") {
  for (std::uint64_t seed = 0; seed <= 20; ++seed) {
    Scene scene{seed == 0 ? 0 : test::seed() * 100 + seed};
    StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
    const auto source = scene.source(kStagedBatches);
    while (const std::optional<Rows> rows = pipeline.progress(source)) scene.consume(*rows);
    INFO("seed " << seed);
    CHECK(scene.numbers == RigSource::numbers(0, kStagedBatches));
    CHECK(scene.result() == expected(kStagedBatches));
    CHECK(scene.rig.races() == std::vector<std::string>{});
  }
}

TEST_CASE("staged: a batch whose uses are not recorded is reported as a race") {
  Scene scene;
  scene.forgetful = true;
  StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
  const auto source = scene.source(kStagedBatches);
  while (const std::optional<Rows> rows = pipeline.progress(source)) scene.consume(*rows);
  CHECK_FALSE(scene.rig.races().empty());
}

TEST_CASE("staged: each edge left out is a race, or the last use of a batch implies it") {
  const auto run = [](const std::string& left_out, std::uint64_t schedule) {
    Scene scene{schedule, left_out};
    StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
    const auto source = scene.source(kStagedBatches);
    while (const std::optional<Rows> rows = pipeline.progress(source)) scene.consume(*rows);
    const std::set<std::string> edges = scene.rig.edges();  // before the test's own wait
    return std::tuple{edges, scene.rig.races(), scene.result()};
  };
  const std::set<std::string> implied{"batch used by data-dist", "batch used by side"};
  const auto [edges, races, result] = run("", 0);
  CHECK(edges == std::set<std::string>{"batch used by data-dist", "batch used by main",
                                       "batch used by side", "data-dist waits for copy",
                                       "main waits for side", "side waits for data-dist"});
  for (const std::string& edge : edges) {
    INFO("without: " << edge);
    for (std::uint64_t seed = 0; seed <= 4; ++seed) {
      const auto [unused, named, found] = run(edge, seed == 0 ? 0 : test::seed() * 100 + seed);
      CHECK(named.empty() == implied.contains(edge));
      if (implied.contains(edge)) CHECK(found == result);
    }
  }
}

TEST_CASE("staged: any driver call that fails loses no batch and causes no race") {
  std::size_t failed = 0;
  for (std::uint64_t call = 1; call < 120; ++call) {
    Scene scene;
    const auto again = [&](const auto& what) {
      for (;;) {
        try {
          return what();
        } catch (const DeviceError&) {
          ++failed;
        }
      }
    };
    StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
    const auto source = scene.source(kStagedBatches);
    FaultInjector faults{scene.rig.device};
    faults.fail_call(call, ErrorCode::unknown);
    while (const std::optional<Rows> rows = again([&] { return pipeline.progress(source); })) {
      again([&] { scene.consume(*rows); });
      CHECK(pipeline.held() <= 3);
    }
    faults.clear();
    INFO("call " << call);
    CHECK(scene.numbers == RigSource::numbers(0, kStagedBatches));
    CHECK(scene.result() == expected(kStagedBatches));
    CHECK(scene.rig.races() == std::vector<std::string>{});
  }
  CHECK(failed > 50);
}

TEST_CASE("staged: a pipeline holds one batch per stage, each one stage after the other") {
  Scene scene;
  StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
  const auto source = scene.source(kStagedBatches);
  REQUIRE(pipeline.progress(source));
  CHECK(pipeline.held() == 3);
  CHECK(scene.log == std::vector<std::string>{"begin 0", "begin 1", "middle 0", "begin 2",
                                              "middle 1", "last 0", "begin 3", "middle 2",
                                              "last 1"});
  std::size_t rest = 0;
  while (pipeline.progress(source)) ++rest;
  CHECK(rest == kStagedBatches - 1);
  CHECK(pipeline.held() == 0);
  CHECK(of_stage(scene.log, "middle").size() == kStagedBatches);
  CHECK_FALSE(pipeline.progress(source));
}

TEST_CASE("staged: a source with fewer batches than stages is processed to its end") {
  const std::size_t batches = GENERATE(0, 1, 2);
  Scene scene;
  StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
  const auto source = scene.source(batches);
  while (const std::optional<Rows> rows = pipeline.progress(source)) scene.consume(*rows);
  CHECK(scene.numbers == RigSource::numbers(0, batches));
}

TEST_CASE("staged: a flush draws no batch until all are out, reports once, then continues") {
  Scene scene;
  StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
  const auto source = scene.source(kStagedBatches);
  REQUIRE(pipeline.progress(source));
  const std::size_t drawn = scene.drawn;
  int flushed = 0;
  pipeline.flush([&] {
    CHECK(scene.drawn == drawn);
    ++flushed;
  });
  for (std::size_t i = 1; i < drawn; ++i) {
    REQUIRE(pipeline.progress(source));
    CHECK(flushed == 0);
  }
  CHECK(pipeline.held() == 0);
  REQUIRE(pipeline.progress(source));
  CHECK(flushed == 1);
  CHECK(pipeline.held() == 3);
  std::size_t rest = 0;
  while (pipeline.progress(source)) ++rest;
  CHECK(rest == kStagedBatches - drawn - 1);
  CHECK(flushed == 1);
}

TEST_CASE("staged: a stage that throws loses no batch, and each stage keeps its order") {
  for (const std::string failing :
       {"begin 0", "middle 0", "last 0", "begin 4", "middle 3", "last 2", "last 9"}) {
    Scene scene;
    scene.failing = failing;
    StagedPipeline<Rows> pipeline{scene.stages(), scene.rig.streams.main};
    const auto source = scene.source(kStagedBatches);
    int failures = 0;
    for (bool more = true; more;) {
      try {
        const std::optional<Rows> rows = pipeline.progress(source);
        more = rows.has_value();
        if (more) scene.consume(*rows);
      } catch (const std::runtime_error& error) {
        CHECK(error.what() == failing);
        ++failures;
      }
    }
    INFO(failing);
    CHECK(failures == 1);
    CHECK(scene.numbers == RigSource::numbers(0, kStagedBatches));
    CHECK(scene.result() == expected(kStagedBatches));
    for (const char* const stage : {"begin", "middle", "last"}) {
      const std::vector<std::string> lines = of_stage(scene.log, stage);
      CHECK(lines.size() == kStagedBatches);
      CHECK(std::is_sorted(lines.begin(), lines.end()));
    }
  }
}

TEST_CASE("staged: a pipeline without stages is refused") {
  PipelineRig rig;
  CHECK_THROWS_AS((StagedPipeline<Rows>{{}, rig.streams.main}), std::invalid_argument);
}
