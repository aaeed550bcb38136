#include <string>

#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// The order in which prefetch-sparse-dist uses cached tables: lookup i, prefetch i+1, update i.

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr std::size_t kPrefetchBatches = 10;
constexpr std::uint64_t kPrefetchSeeds = 60;  // the checker has to name left-out waits within these

/// The place of a wait in a step: the model's last call before it.
enum class After { nothing, zero_gradients, look_up, forward, backward, update, optimizer };

/// A model that forwards all calls and remembers the last one.
class Watched final : public TrainModel {
 public:
  explicit Watched(TrainModel& inner) : inner_(inner) {}

  void zero_gradients() override {
    inner_.zero_gradients();
    last = After::zero_gradients;
  }
  std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features, Stream& stream) override {
    return inner_.prefetch(features, stream);
  }
  void look_up_prefetched(TableLookup& lookup, Stream& stream) override {
    inner_.look_up_prefetched(lookup, stream);
    last = After::look_up;
  }
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override {
    last = After::look_up;
    return inner_.look_up(features, stream);
  }
  void forward(const InputTensors& input, TableLookup& lookup) override {
    inner_.forward(input, lookup);
    last = After::forward;
  }
  void backward(TableLookup& lookup) override {
    inner_.backward(lookup);
    last = After::backward;
  }
  void update_tables(TableLookup& lookup, Stream& stream) override {
    inner_.update_tables(lookup, stream);
    last = After::update;
  }
  void optimizer_step() override {
    inner_.optimizer_step();
    last = After::optimizer;
  }
  void swap_gradients(Buffer& other) override { inner_.swap_gradients(other); }
  void abandon() noexcept override { inner_.abandon(); }

  After last = After::nothing;

 private:
  TrainModel& inner_;
};

struct PrefetchOutcome {
  std::vector<std::string> races;
  std::vector<float> parameters;
  std::size_t left_out = 0;
};

/// Leaves out the waits that follow the model's call `without` and precede its next call.
PrefetchOutcome run(PipelineCase what, After without) {
  PipelineRig rig{what};
  Watched model{*rig.model};
  auto pipeline = rig.make(what, model);
  RigSource source{rig, 0, kPrefetchBatches};
  PrefetchOutcome outcome;
  rig.program_device.leave_out_waits_if([&] {
    const bool leaves_out = without != After::nothing && model.last == without;
    outcome.left_out += leaves_out ? 1 : 0;
    return leaves_out;
  });
  while (pipeline->progress(source)) {
  }
  model.last = After::nothing;
  pipeline.reset();
  outcome.parameters = rig.parameters();
  outcome.races = rig.races();
  return outcome;
}

PipelineCase cached(Waits waits) {
  return {.kind = PipelineKind::prefetch_sparse_dist,
          .waits = waits,
          .model = RigModel::sparse_nn_long,
          .cache = TableCache{0.05}};
}

bool named(PipelineCase what, After without) {
  for (std::uint64_t seed = 0; seed < kPrefetchSeeds; ++seed) {
    what.schedule = seed == 0 ? 0 : test::seed() + seed;
    const PrefetchOutcome outcome = run(what, without);
    REQUIRE(outcome.left_out > 0);
    if (!outcome.races.empty()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the prefetch of the next batch waits for the lookup of the current batch") {
  const PipelineCase what = cached(GENERATE(Waits::coarse, Waits::precise));
  CHECK(run(what, After::nothing).races == std::vector<std::string>{});
  CHECK(named(what, After::look_up));
}

TEST_CASE("an update waits for the prefetch of the next batch, which may have moved its rows") {
  const PipelineCase what = cached(GENERATE(Waits::coarse, Waits::precise));
  CHECK(named(what, After::backward));
}

TEST_CASE("a lookup needs no wait for the prefetch when the previous update has waited") {
  // Before a lookup, main waits for what the previous update has already waited for. Without cached
  // tables there is no such order, and the wait makes the features available.
  PipelineCase what = cached(GENERATE(Waits::coarse, Waits::precise));
  const std::vector<float> expected = plainly_trained(kPrefetchBatches, what.model);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    what.schedule = seed == 0 ? 0 : test::seed() + seed;
    CHECK(run(what, After::nothing).parameters == expected);
  }
  PipelineCase plain{.kind = PipelineKind::prefetch_sparse_dist, .waits = what.waits};
  plain.left_out = "main waits for prefetch";
  bool found = false;
  for (std::uint64_t seed = 0; seed < kPrefetchSeeds && !found; ++seed) {
    plain.schedule = seed == 0 ? 0 : test::seed() + seed;
    found = !run(plain, After::nothing).races.empty();
  }
  CHECK(found);
}

TEST_CASE("each edge of prefetch-sparse-dist with cached tables is named when it is left out") {
  const Waits waits = GENERATE(Waits::coarse, Waits::precise);
  PipelineCase what = cached(waits);
  PipelineRig rig{what};
  {
    auto pipeline = rig.make();
    RigSource source{rig, 0, kPrefetchBatches};
    while (pipeline->progress(source)) {
    }
  }
  const std::set<std::string> edges = rig.edges();
  for (const char* const edge :
       {"prefetch waits for main", "prefetch waits for data-dist", "main waits for prefetch"}) {
    CHECK(edges.contains(edge));
    what.left_out = edge;
    bool found = false;
    for (std::uint64_t seed = 0; seed < kPrefetchSeeds && !found; ++seed) {
      what.schedule = seed == 0 ? 0 : test::seed() + seed;
      found = !run(what, After::nothing).races.empty();
    }
    INFO(what.name());
    CHECK(found);
  }
}

TEST_CASE("rows are loaded on the prefetch stream, and never by a lookup on main") {
  const PipelineCase what = cached(GENERATE(Waits::coarse, Waits::precise));
  PipelineRig rig{what};
  struct Spans final : DeviceObserver {
    void enqueued(StreamHandle stream, const Operation& operation) override {
      operations.emplace_back(stream.value, operation.name);
    }
    std::vector<std::pair<void*, std::string>> operations;
  };
  Spans spans;
  rig.device.add_observer(spans);
  auto pipeline = rig.make();
  RigSource source{rig, 0, 4};
  while (pipeline->progress(source)) {
  }
  rig.device.remove_observer(spans);
  std::size_t on_prefetch = 0, on_main = 0;
  for (const auto& [stream, name] : spans.operations) {
    if (name != "bring rows") continue;
    (stream == rig.streams.named("prefetch").handle().value ? on_prefetch : on_main) += 1;
  }
  CHECK(on_prefetch > 0);
  CHECK(on_main == 0);
}
