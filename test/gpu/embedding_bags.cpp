#include "millrace/pipeline/model/embedding_bags.hpp"

#include <cstring>
#include <optional>

#include "test/gpu/bag_bounds.hpp"
#include "test/gpu/gpu_bench.hpp"
#include "test/support/catch.hpp"

/// Compares the CUDA kernels with the host kernels. The tests of the pipeline compare those with
/// formulas in double.

using namespace millrace;
using namespace millrace::test;

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("tables start with the same bits on a GPU and on the host", "[gpu][model]") {
  GpuBench gpu;
  ModelBench host;
  BagSteps<GpuBench> there{gpu, {}};
  BagSteps<ModelBench> here{host, {}};
  there.run(false, 0);
  here.run(false, 0);
  CHECK(there.weights == here.weights);
}

// Sums in another order round differently. Adagrad and Adam divide the difference by a small root,
// and where the sum of a bag cancels, the difference has no bound. So sums are exact here.
// test/kernels compares rounded sums with the host's, step by step.
TEST_CASE("embedding bags on a GPU agree with those on the host", "[gpu][model]") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                                   OptimizerKind::adagrad, OptimizerKind::adam}) {
    for (const bool weighted : {false, true}) {
      INFO(to_string(kind) << (weighted ? ", weighted" : ""));
      GpuBench gpu;
      ModelBench host;
      const Optimizer optimizer{.kind = kind, .learning_rate = 0.05F, .epsilon = 1e-2F};
      BagSteps<GpuBench> there{gpu, optimizer};
      BagSteps<ModelBench> here{host, optimizer};
      there.run(weighted, 3, kBatch, Sums::exact);
      here.run(weighted, 3, kBatch, Sums::exact);
      check_alike(there, here, bounds_of(optimizer, weighted, 3, kBatch));
    }
  }
}

TEST_CASE("an id out of range on a GPU is named with its table, and does no harm", "[gpu][model]") {
  GpuBench gpu;
  BagSteps<GpuBench> steps{gpu, {}};
  std::mt19937_64 random{seed()};
  HostBags batch = draw_bags(random, steps.bags.features(), kRows, kBatch, 6, false);
  batch.bags[2][17].push_back(2000);
  batch.bags[5][3].push_back(-4);
  const Array<float> out{gpu.allocator, kBatch * steps.bags.columns(), gpu.main};
  const KeyedJaggedTensor on_device = gpu.memory.upload(batch);
  steps.bags.look_up(on_device, nullptr, {out.data(), steps.bags.columns(), 0}, gpu.main);
  steps.bags.update(on_device, nullptr, {out.data(), steps.bags.columns(), 0}, gpu.main);
  const auto invalid = steps.bags.invalid_id(gpu.main);
  REQUIRE(invalid);
  CHECK(invalid->table == "usual");
  CHECK(invalid->feature == "c");
  CHECK(invalid->value == 2000);
  CHECK_FALSE(steps.bags.invalid_id(gpu.main));
}

TEST_CASE("the update of tables on a lost GPU throws device_lost", "[gpu][model]") {
  static_cast<void>(require_gpu());
  CHECK(run_alone("[.lost-tables]") == 0);  // the process cannot use the GPU afterwards
}

TEST_CASE("a GPU is lost between look-up and update", "[.lost-tables]") {
  auto& gpu = *new GpuBench;  // never deleted: a lost GPU frees nothing
  auto& steps = *new BagSteps<GpuBench>{gpu, {}};
  std::mt19937_64 random{seed()};
  const auto& batch = *new KeyedJaggedTensor{
      gpu.memory.upload(draw_bags(random, steps.bags.features(), kRows, kBatch, 6, false))};
  const auto& out = *new Array<float>{gpu.allocator, kBatch * steps.bags.columns(), gpu.main};
  const PooledMatrix rows{out.data(), steps.bags.columns(), 0};
  steps.bags.look_up(batch, nullptr, rows, gpu.main);
  Operation wild;
  wild.name = "wild";
  wild.views = {{reinterpret_cast<void*>(std::uintptr_t{1} << 12U), 4096, Access::write}};
  gpu.gpu->launch(wild, gpu.main.handle());
  CHECK(error_of([&] { gpu.gpu->synchronize(gpu.main.handle()); }) == ErrorCode::device_lost);
  CHECK(error_of([&] { steps.bags.update(batch, nullptr, rows, gpu.main); }) ==
        ErrorCode::device_lost);
}

TEST_CASE("cached tables on a GPU give the bits of plain tables, and cache the host's rows",
          "[gpu][model]") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                                   OptimizerKind::adagrad, OptimizerKind::adam}) {
    for (const bool weighted : {false, true}) {
      GpuBench gpu;
      BagSteps<GpuBench> plain{gpu, {.kind = kind, .learning_rate = 0.05F}};
      plain.run(weighted, 6);
      for (const double load_factor : {0.02, 0.3, 1.0}) {
        for (const CachePolicy policy : kCachePolicies) {
          INFO(to_string(kind) << ", load factor " << load_factor << ", " << to_string(policy));
          const TableCache cache{load_factor, policy};
          BagSteps<GpuBench> cached{gpu, {.kind = kind, .learning_rate = 0.05F}, cache};
          cached.run(weighted, 6);
          CHECK(same_bits(cached.pooled, plain.pooled));
          CHECK(same_bits(cached.factor_gradients, plain.factor_gradients));
          CHECK(same_bits(cached.weights, plain.weights));

          ModelBench host;
          BagSteps<ModelBench> on_host{host, {.kind = kind, .learning_rate = 0.05F}, cache};
          on_host.run(weighted, 6);
          CHECK(cached.cached == on_host.cached);
          const CacheCounts found = cached.bags.cache_counts(gpu.main);
          const CacheCounts expected = on_host.bags.cache_counts(host.main);
          CHECK(found.hits == expected.hits);
          CHECK(found.loads == expected.loads);
          CHECK(found.write_backs == expected.write_backs);
          CHECK(found.unplaced == expected.unplaced);
        }
      }
    }
  }
}

// For compute-sanitizer: runs each kernel of the bags at least once, in few launches.

TEST_CASE("small embedding bags and their cache on a GPU agree with those on the host",
          "[gpu][model][kernels]") {
  constexpr std::size_t kExamples = 80;  // the table of one row is looked up 240 times: a long run
  for (const bool cached : {false, true}) {
    const OptimizerKind kind = cached ? OptimizerKind::adam : OptimizerKind::rowwise_adagrad;
    INFO(to_string(kind) << (cached ? ", cached" : ""));
    const Optimizer optimizer{.kind = kind, .learning_rate = 0.05F, .epsilon = 1e-2F};
    const auto cache = cached ? std::optional{TableCache{0.1}} : std::nullopt;
    GpuBench gpu;
    ModelBench host;
    BagSteps<GpuBench> there{gpu, optimizer, cache};
    BagSteps<ModelBench> here{host, optimizer, cache};
    there.run(cached, 2, kExamples, Sums::exact);
    here.run(cached, 2, kExamples, Sums::exact);
    check_alike(there, here, bounds_of(optimizer, cached, 2, kExamples));
    CHECK(there.cached == here.cached);
  }
}
