#include "loop/modeled_exchange.hpp"

#include "test/experiment/loop_case.hpp"
#include "test/pipeline/schedule/pipeline_rig.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::experiment;
using namespace millrace::test;

namespace {

struct ExchangeRig : PipelineRig {
  using PipelineRig::PipelineRig;

  Workload workload = small_workload(PipelineKind::sparse_dist);
  TimelineClock clock{machine, kMainStream};
  LoopWork work{
      {.device = ordered, .allocator = memory, .batches = memory, .pinned = pinned, .clock = clock},
      workload};
  ModeledExchange exchange{work, workload};
};

}  // namespace

TEST_CASE("trap 9: an abandoned exchange frees no memory that a running copy uses") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    ExchangeRig rig{{.schedule = seed == 0 ? 0 : test::seed() + seed}};
    auto& streams = rig.work.streams;
    for (std::size_t number = 0; number < 6; ++number) {
      const ModelInput host = rig.load(5);
      const auto strategy = CopyStrategy::make(
          CopyMethod::side_stream,
          {.allocator = rig.memory, .main = streams.main, .copy = rig.streams.copy});
      DeviceModelInput input = host.to(*strategy);
      input.hand_to(streams.data_dist);
      const auto given_up = rig.exchange.start(input.tensors(), streams.data_dist);
      if (number % 2 == 1) given_up->receive(Waits::precise);
    }
    INFO("seed " << seed);
    CHECK(rig.races() == std::vector<std::string>{});
    CHECK(rig.live_blocks() == 0);
  }
}

TEST_CASE("an exchange holds less memory after clear_inputs and gives the same layout") {
  ExchangeRig rig;
  const PipelineRig::OnDevice batch = rig.upload(5);
  const auto flight = rig.exchange.start(batch.input, rig.work.streams.main);
  flight->receive(Waits::precise);
  const std::size_t before = rig.live_blocks();
  flight->clear_inputs();
  CHECK(rig.live_blocks() < before);
  CHECK(flight->arrange().unweighted.layout() == batch.input.sparse.layout());
  CHECK(rig.races() == std::vector<std::string>{});
}
