#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <string>

#include "millrace/pipeline/data/loading_thread.hpp"
#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kExactBatches = 14;

/// Number of schedules per cell: MILLRACE_SCHEDULES, or 10.
std::uint64_t schedules() {
  const char* const given = std::getenv("MILLRACE_SCHEDULES");
  return given == nullptr ? 10 : std::stoull(given);
}

/// Schedule 0 is timed, all others are adversarial.
std::uint64_t schedule(std::uint64_t number) {
  return number == 0 ? 0 : test::seed() * 100'000 + number;
}

/// Destroys the pipeline. Then compares the parameters with the plain loop's bits and checks for
/// races and for blocks that are still live.
void check_outcome(PipelineRig& rig, std::unique_ptr<TrainPipeline> pipeline,
                   const PipelineCase& what, const std::vector<float>& expected) {
  INFO(what.name());
  pipeline.reset();
  CHECK(rig.parameters() == expected);
  CHECK(rig.races() == std::vector<std::string>{});
  rig.model.reset();
  CHECK(rig.live_blocks() == 0);
}

/// Stale from the first step or from the seventh; the dense gradients are stale too, or not.
StaleOptions stale_options(std::size_t number) {
  return {.start_batch = number % 2 == 0 ? 0U : 6U, .stash_gradients = number % 4 >= 2};
}

void check_cells(PipelineKind kind, RigModel model) {
  std::map<std::string, std::vector<float>> expected;
  std::size_t cell = 0;
  for (PipelineCase what : cases_of(kind, model)) {
    const bool semi_sync = kind == PipelineKind::semi_sync;
    if (semi_sync) what.stale = stale_options(cell + cell / 4);
    ++cell;
    const std::string loop = fmt::format("{} {} {}", static_cast<int>(what.model),
                                         what.stale.start_batch, what.stale.stash_gradients);
    if (!expected.contains(loop)) {
      expected.emplace(loop, semi_sync ? stalely_trained(kExactBatches, what.stale, what.model)
                                       : plainly_trained(kExactBatches, what.model));
    }
    for (std::uint64_t number = 0; number <= schedules(); ++number) {
      what.schedule = schedule(number);
      PipelineRig rig{what};
      auto pipeline = rig.make();
      RigSource source{rig, 0, kExactBatches};
      while (pipeline->progress(source)) {
      }
      CHECK(pipeline->steps() == kExactBatches);
      check_outcome(rig, std::move(pipeline), what, expected[loop]);
    }
  }
}

/// A rig's batches as epochs, for a loading thread.
class RigEpochs final : public EpochSource {
 public:
  RigEpochs(PipelineRig& rig, std::size_t batches) : rig_(rig), batches_(batches) {}

  [[nodiscard]] const InputSchema& schema() const override { return schema_; }
  [[nodiscard]] BatchPosition position() const override { return position_; }

 private:
  std::optional<ModelInput> do_next() override {
    if (position_.batch == batches_) return std::nullopt;
    return rig_.load(position_.batch++);
  }
  void do_seek(BatchPosition position) override { position_ = position; }

  PipelineRig& rig_;
  const std::size_t batches_;
  InputSchema schema_;
  BatchPosition position_;
};

}  // namespace

TEST_CASE("law 6: every pipeline trains the tiny model to the bits of its loop, without a race",
          "[law6]") {
  check_cells(GENERATE(from_range(kPipelineKinds)), RigModel::tiny);
}

TEST_CASE("law 6: every pipeline trains a SparseNN to the bits of its loop, without a race",
          "[law6]") {
  check_cells(GENERATE(from_range(kPipelineKinds)), RigModel::sparse_nn);
}

namespace {

/// Caches that hold few rows, some rows or all rows.
TableCache table_cache(std::size_t number) {
  constexpr double kShares[] = {0.05, 0.3, 1};
  return {kShares[number % 3], kCachePolicies[number / 3 % 2]};
}

/// Trains a model with cached tables and compares it with the same training without a cache.
void check_cached(PipelineCase what, std::size_t batches) {
  if (what.kind == PipelineKind::fused_sparse_dist) what.lookup.order_after_dense = true;
  if (what.kind == PipelineKind::semi_sync) what.stale.start_batch = 2;
  const auto expected = what.kind == PipelineKind::semi_sync
                            ? stalely_trained(batches, what.stale, what.model)
                            : plainly_trained(batches, what.model);
  PipelineRig rig{what};
  auto pipeline = rig.make();
  RigSource source{rig, 0, batches};
  while (pipeline->progress(source)) {
  }
  auto& network = static_cast<SparseNN&>(*rig.model);
  if (what.cache->load_factor < 0.1) {
    CHECK(network.bags().cache_counts(rig.streams.main).write_backs > 0);
  }
  check_outcome(rig, std::move(pipeline), what, expected);
}

}  // namespace

TEST_CASE("law 6: prefetch-sparse-dist trains cached tables to the bits of the plain loop",
          "[law6][cached]") {
  std::size_t cell = 0;
  for (PipelineCase what : cases_of(PipelineKind::prefetch_sparse_dist, RigModel::sparse_nn_long)) {
    const std::size_t some = cell + cell / 4;
    ++cell;
    what.savers = {some % 2 == 1, some / 2 % 2 == 1, some / 4 % 2 == 1};
    for (std::uint64_t number = 0; number <= schedules() / 3; ++number) {
      what.schedule = schedule(number);
      what.cache = table_cache(some + number);
      check_cached(what, kExactBatches);
    }
  }
}

TEST_CASE("law 6: every pipeline trains cached tables to the bits of its loop", "[law6][cached]") {
  std::size_t cell = 0;
  for (const PipelineKind kind : kPipelineKinds) {
    for (const Waits waits : {Waits::coarse, Waits::precise}) {
      for (std::uint64_t number = 0; number <= 2; ++number) {
        check_cached({.kind = kind,
                      .copy = kCopyMethods[cell % kCopyMethods.size()],
                      .waits = waits,
                      .schedule = schedule(number),
                      .model = RigModel::sparse_nn_long,
                      .cache = table_cache(cell)},
                     kExactBatches);
        ++cell;
      }
    }
  }
}

TEST_CASE("a stale loop gives other bits than the plain loop, except before start_batch") {
  const std::vector<float> plain = plainly_trained(kExactBatches);
  const std::vector<float> stale = stalely_trained(kExactBatches, {.start_batch = 0});
  CHECK(stale != plain);
  CHECK(stalely_trained(kExactBatches, {.start_batch = 6}) != stale);
  CHECK(stalely_trained(kExactBatches, {.start_batch = 0, .stash_gradients = true}) != stale);
  CHECK(stalely_trained(kExactBatches, {.start_batch = kExactBatches}) == plain);
}

TEST_CASE("memory savers change no bit and cause no race") {
  const std::vector<float> expected = plainly_trained(kExactBatches);
  std::size_t cell = 0;
  for (PipelineCase what : all_cases()) {
    const std::size_t some = 1 + (cell + cell / 4) % 7;
    ++cell;
    for (const std::size_t savers : {some, std::size_t{7}}) {
      what.savers = {(savers & 1) != 0, (savers & 2) != 0, (savers & 4) != 0};
      for (std::uint64_t number = 0; number <= 2; ++number) {
        what.schedule = schedule(number);
        PipelineRig rig{what};
        auto pipeline = rig.make();
        RigSource source{rig, 0, kExactBatches};
        while (pipeline->progress(source)) {
        }
        check_outcome(rig, std::move(pipeline), what, expected);
      }
    }
  }
}

TEST_CASE("copies ahead change no bit and cause no race") {
  const std::vector<float> expected = plainly_trained(kExactBatches);
  std::size_t cell = 0;
  for (PipelineCase what : all_cases()) {
    what.copies_ahead = 1 + cell++ % 4;
    const ExpectedPipeline known = expected_of(what.kind);
    for (std::uint64_t number = 0; number <= 2; ++number) {
      what.schedule = schedule(number);
      PipelineRig rig{what};
      auto pipeline = rig.make();
      RigSource source{rig, 0, kExactBatches};
      REQUIRE(pipeline->progress(source));
      CHECK(pipeline->held() == known.at_rest + what.copies_ahead);
      while (pipeline->progress(source)) {
      }
      CHECK(pipeline->most_held() == known.at_peak + what.copies_ahead);
      check_outcome(rig, std::move(pipeline), what, expected);
    }
  }
}

TEST_CASE("a reset drops batches without a race, and the others train to the same bits") {
  const std::size_t steps = GENERATE(1, 4);
  for (PipelineCase what : all_cases()) {
    for (std::uint64_t number = 0; number <= 2; ++number) {
      what.schedule = schedule(number);
      PipelineRig rig{what};
      auto pipeline = rig.make();
      RigSource source{rig, 0, kExactBatches};
      for (std::size_t step = 0; step < steps; ++step) REQUIRE(pipeline->progress(source));
      std::vector<std::size_t> trained = RigSource::numbers(0, steps);
      const std::vector<std::size_t> rest = RigSource::numbers(source.drawn(), kExactBatches);
      trained.insert(trained.end(), rest.begin(), rest.end());

      pipeline->reset();
      while (pipeline->progress(source)) {
      }
      check_outcome(rig, std::move(pipeline), what, plainly_trained(trained));
    }
  }
}

TEST_CASE("a model that is detached, used by hand and attached again trains to the same bits") {
  const std::vector<float> expected = plainly_trained(kExactBatches);
  const std::size_t steps = GENERATE(1, 5, kExactBatches);
  for (PipelineCase what : all_cases()) {
    what.schedule = schedule(3);
    PipelineRig rig{what};
    auto pipeline = rig.make();
    RigSource source{rig, 0, kExactBatches};
    for (std::size_t step = 0; step < steps; ++step) REQUIRE(pipeline->progress(source));

    TrainModel& model = pipeline->detach();
    model.zero_gradients();
    static_cast<void>(rig.parameters());
    pipeline->attach(model);
    while (pipeline->progress(source)) {
    }
    check_outcome(rig, std::move(pipeline), what, expected);
  }
}

TEST_CASE("pipelines of different kinds in turn on one model give the bits of the plain loop") {
  constexpr std::size_t kMany = 24;
  const std::vector<float> expected = plainly_trained(kMany);
  PipelineCase what{.kind = PipelineKind::prefetch_sparse_dist,  // it has every stream
                    .schedule = schedule(GENERATE(0, 1, 2, 3))};
  PipelineRig rig{what};
  RigSource source{rig, 0, kMany};
  for (const PipelineKind kind : kPipelineKinds) {
    what.kind = kind;
    const auto pipeline = rig.make(what, *rig.model);
    for (int step = 0; step < 2; ++step) REQUIRE(pipeline->progress(source));
    pipeline->drain();
  }
  auto last = rig.make();
  while (last->progress(source)) {
  }
  check_outcome(rig, std::move(last), what, expected);
}

TEST_CASE("trap 14: batches that another thread loads are complete and give the same bits") {
  const std::vector<float> expected = plainly_trained(kExactBatches);
  for (PipelineCase what : all_cases()) {
    for (std::uint64_t number = 0; number <= 3; ++number) {
      what.schedule = schedule(number);
      PipelineRig rig{what};
      rig.checking.attach(rig.machine.executor());
      auto pipeline = rig.make();
      RigEpochs epochs{rig, kExactBatches};
      {
        LoadingThread loader{rig.machine.executor(), epochs, {.check_ids = false}};
        while (pipeline->progress(loader)) {
        }
      }
      check_outcome(rig, std::move(pipeline), what, expected);
    }
  }
}
