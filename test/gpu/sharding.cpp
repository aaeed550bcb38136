#include <exception>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/thread_executor.hpp"
#include "millrace/pipeline/collective/thread_group.hpp"
#include "test/gpu/support.hpp"
#include "test/pipeline/sharding/sharded_rig.hpp"
#include "test/support/catch.hpp"

namespace millrace::test {

namespace {

void check_ranks_that_share_a_gpu(std::initializer_list<const char*> plans, std::size_t steps) {
  constexpr std::size_t kExamples = 8;
  const auto gpu = require_gpu();
  {
    OrderedDevice device{*gpu};
    Stream main{device};
    DeviceSource source{*gpu};
    CachingAllocator memory{device, source, Policy::millrace()};
    ModelContext context{memory, main};
    try {
      static_cast<void>(context.blas(main));
    } catch (const std::runtime_error& error) {
      SKIP(error.what());
    }
  }
  SparseNNConfig config = sharded_config();
  config.position_weights = {{"user", 2}, {"item", 1}, {"day", 2}, {"shop", 3}};
  const Trained alone = trained_alone(config, steps, kExamples);
  for (const char* const name : plans) {
    INFO(name);
    const ShardingPlan plan = plan_named(name, config, 2);
    ThreadExecutor executor;
    OrderedDevice device{*gpu};
    ThreadRanks ranks{2, executor};
    std::vector<double> differences(2);
    std::vector<std::unique_ptr<Executor::Task>> tasks;
    for (unsigned number = 0; number < 2; ++number) {
      tasks.push_back(executor.spawn("rank", [&, number] {
        const auto group = ranks.join(number, device);
        ShardedRank rank{device, nullptr, config, plan, group.get()};
        for (std::size_t step = 0; step < steps; ++step) {
          rank.step(GlobalBatch{config, step, kExamples}, number * 4, 4);
        }
        differences[number] = difference(config, plan, alone, number, rank.trained());
      }));
    }
    for (const auto& task : tasks) task->join();
    for (const double off : differences) CHECK(off <= 1e-4);
  }
}

}  // namespace

TEST_CASE("ranks that share a GPU train as one rank with host kernels does", "[gpu]") {
  check_ranks_that_share_a_gpu({"table-wise", "row-wise", "data-parallel", "mixed"}, 10);
}

// For compute-sanitizer.
TEST_CASE("ranks that share a GPU train one step as one rank with host kernels does",
          "[gpu][kernels]") {
  check_ranks_that_share_a_gpu({"mixed"}, 1);
}

}  // namespace millrace::test
