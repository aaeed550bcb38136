#include "millrace/pipeline/schedule/comparison.hpp"

#include "schedule/comparison/bound.hpp"
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

/// An operation on memory that is named by small numbers.
LoggedOperation operation(Engine engine, Nanoseconds begin, Nanoseconds alone,
                          std::vector<std::pair<std::uintptr_t, Access>> pages,
                          unsigned device = 0) {
  static std::uint64_t index = 0;
  LoggedOperation made{.device = device,
                       .index = index++,
                       .engine = engine,
                       .begin = begin,
                       .end = begin + alone,
                       .alone = alone,
                       .cost = {},
                       .views = {}};
  for (const auto& [page, access] : pages) {
    made.views.push_back({reinterpret_cast<void*>((page + 1) << 12), 1 << 12, access});
  }
  return made;
}

Nanoseconds chain(const std::vector<LoggedOperation>& operations) {
  return bound_of(operations, DeviceProfile::named("h100")).data_flow;
}

}  // namespace

TEST_CASE("the bound's chain is of operations that read what the one before wrote") {
  using enum Engine;
  using enum Access;
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, write}}),
               operation(compute, 5ns, 7ns, {{1, read}, {2, write}}),
               operation(compute, 12ns, 1ns, {{2, read}})}) == 13ns);
  // Memory that is written anew ties nothing to what it held before.
  CHECK(
      chain({operation(compute, 0ns, 5ns, {{1, write}}), operation(compute, 5ns, 7ns, {{1, write}}),
             operation(compute, 12ns, 1ns, {{1, read}})}) == 8ns);
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, read_write}}),
               operation(compute, 5ns, 7ns, {{1, read_write}})}) == 12ns);
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, write}}),
               operation(compute, 5ns, 7ns, {{2, write}})}) == 7ns);
}

TEST_CASE("the bound's chain goes through what ranks do together") {
  using enum Engine;
  using enum Access;
  CHECK(chain({operation(compute, 0ns, 5ns, {{1, write}}, 0),
               operation(compute, 0ns, 9ns, {{1, write}}, 1),
               operation(link, 9ns, 2ns, {{1, read}, {2, write}}, 0),
               operation(link, 9ns, 2ns, {{1, read}, {2, write}}, 1),
               operation(compute, 11ns, 4ns, {{2, read}}, 0)}) == 15ns);
}

TEST_CASE("part of what was written is enough for a chain, and keeps the rest as it was") {
  using enum Access;
  const auto at = [](std::uintptr_t begin, std::size_t bytes, Access access) {
    return View{reinterpret_cast<void*>(begin), bytes, access};
  };
  LoggedOperation whole = operation(Engine::compute, 0ns, 5ns, {});
  whole.views = {at(0x1000, 300, write)};
  LoggedOperation middle = operation(Engine::compute, 5ns, 1ns, {});
  middle.views = {at(0x1000 + 100, 100, write)};
  LoggedOperation right = operation(Engine::compute, 6ns, 2ns, {});
  right.views = {at(0x1000 + 250, 10, read)};
  LoggedOperation inside = operation(Engine::compute, 6ns, 2ns, {});
  inside.views = {at(0x1000 + 150, 10, read)};
  CHECK(chain({whole, middle, right}) == 7ns);
  CHECK(chain({whole, middle, inside}) == 5ns);
}

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
