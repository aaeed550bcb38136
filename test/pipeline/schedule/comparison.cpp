#include "millrace/pipeline/schedule/comparison.hpp"

#include "test/support/catch.hpp"

using namespace millrace;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

namespace {

Workload small_pr2916() {
  Workload workload = Workload::named("pr2916");
  workload.batch_size = 512;
  workload.num_batches = 4;
  return workload;
}

}  // namespace

TEST_CASE("no pipeline is faster than its bound, and none has a race") {
  const Workload workload = small_pr2916();
  for (const PipelineKind kind : kPipelineKinds) {
    for (const Waits waits : {Waits::coarse, Waits::precise}) {
      const PipelineRun run =
          run_pipeline({.pipeline = kind, .options = {.waits = waits}}, workload, 1);
      INFO(to_string(kind) << " " << to_string(waits));
      CHECK(run.bound.runtime() > 0ns);
      CHECK(run.runtime >= run.bound.runtime());
      CHECK(run.races.empty());
      CHECK(run.memory.reserved.peak >= run.memory.allocated.peak);
    }
  }
}

TEST_CASE("memory does not depend on the card") {
  const Workload workload = small_pr2916();
  const PipelineRun h100 = run_pipeline({.device = "virtual:h100"}, workload, 1);
  const PipelineRun a100 = run_pipeline({.device = "virtual:a100"}, workload, 1);
  CHECK(h100.memory.allocated.peak == a100.memory.allocated.peak);
  CHECK(h100.runtime < a100.runtime);
}

TEST_CASE("a comparison repeats exactly, and another seed draws other batches") {
  Workload workload = small_pr2916();
  workload.feature_pooling_std = 3;
  const PipelineRun once = run_pipeline({}, workload, 1);
  const PipelineRun again = run_pipeline({}, workload, 1);
  CHECK(once.runtime == again.runtime);
  CHECK(once.memory.reserved.peak == again.memory.reserved.peak);
  CHECK(once.memory.requested.peak != run_pipeline({}, workload, 2).memory.requested.peak);
}

TEST_CASE("a workload without a model, or a device that is not virtual, is refused") {
  CHECK_THROWS_WITH(run_pipeline({}, Workload::named("train_pipeline_base"), 1),
                    ContainsSubstring("has no model"));
  CHECK_THROWS_AS(run_pipeline({.device = "virtual:none"}, small_pr2916(), 1),
                  std::invalid_argument);
}

TEST_CASE("a rank that runs out of memory says so, and not what that did to the others") {
  Workload workload = small_pr2916();
  // Behind 100 tables, one more for each rank in turn.
  workload.additional_tables = {{.num_embeddings = 10, .embedding_dim = 512},
                                {.num_embeddings = 100'000'000, .embedding_dim = 512}};
  CHECK_THROWS_AS(run_pipeline({}, workload, 1), out_of_memory);
}
