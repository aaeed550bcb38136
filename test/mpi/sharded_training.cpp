#include "millrace/device/virtual_machine.hpp"
#include "test/mpi/processes.hpp"
#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

TEST_CASE("processes train as one rank does, however the tables are sharded") {
  constexpr std::size_t kSteps = 20, kExamples = 8;
  const unsigned ranks = processes().size(), number = processes().rank();
  const SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const std::size_t share = kExamples / ranks;
  for (const char* const name : {"table-wise", "row-wise", "data-parallel", "mixed"}) {
    INFO(name);
    VirtualMachine machine;
    OrderedDevice device{machine.add_device({.memory_bytes = std::size_t{1} << 28})};
    const auto group = processes().group(device, {.time_out = std::chrono::seconds{20}});
    const ShardingPlan plan = plan_named(name, config, ranks);
    ShardedRank rank{device, nullptr, config, plan, group.get()};
    for (std::size_t step = 0; step < kSteps; ++step) {
      rank.step(GlobalBatch{config, step, kExamples}, number * share, share);
    }
    rank.exchange().exhausted();
    CHECK(difference(config, plan, alone, number, rank.trained()) <= 1e-5);
  }
}

TEST_CASE("processes train through every pipeline as one rank does") {
  constexpr std::size_t kSteps = 20, kExamples = 8;
  const unsigned ranks = processes().size(), number = processes().rank();
  const SparseNNConfig config = sharded_config();
  const Trained alone = trained_alone(config, kSteps, kExamples);
  const ShardingPlan plan = plan_named("mixed", config, ranks);
  const std::size_t share = kExamples / ranks;
  for (const PipelineKind kind : kPipelineKinds) {
    INFO(to_string(kind));
    VirtualMachine machine;
    OrderedDevice device{machine.add_device({.memory_bytes = std::size_t{1} << 28})};
    const auto group = processes().group(device, {.time_out = std::chrono::seconds{20}});
    ShardedRank rank{device, nullptr, config, plan, group.get()};
    rank.run(kind, {.waits = Waits::precise}, kSteps, kExamples, number * share, share);
    CHECK(difference(config, plan, alone, number, rank.trained()) <= 1e-5);
  }
}

TEST_CASE("processes with different numbers of batches all get an error, and none hangs") {
  if (processes().size() < 2) SKIP("takes two ranks");
  const SparseNNConfig config = sharded_config();
  const ShardingPlan plan = plan_named("mixed", config, processes().size());
  VirtualMachine machine;
  OrderedDevice device{machine.add_device({.memory_bytes = std::size_t{1} << 28})};
  const auto group = processes().group(device, {.time_out = std::chrono::seconds{20}});
  ShardedRank rank{device, nullptr, config, plan, group.get()};
  const auto train = [&] {
    const std::size_t batches = processes().rank() == 0 ? 3 : 2;
    for (std::size_t step = 0; step < batches; ++step) {
      rank.step(GlobalBatch{config, step, 16}, 4 * processes().rank(), 4);
    }
    rank.exchange().exhausted();
  };
  CHECK_THROWS_WITH(train(), Catch::Matchers::ContainsSubstring("has no more batches"));
}

}  // namespace millrace::test
