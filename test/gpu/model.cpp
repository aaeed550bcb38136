#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "millrace/pipeline/model/sparse_nn.hpp"
#include "test/gpu/support.hpp"
#include "test/support/catch.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

/// The CUDA kernels beside the host kernels, which the tests of the pipeline hold to formulas in
/// double.

using namespace millrace;
using namespace millrace::test;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What a model runs in on a GPU.
struct GpuBench {
  std::unique_ptr<CudaDevice> gpu = require_gpu();
  OrderedDevice ordered{*gpu};
  Stream main{ordered, {.name = "main"}};
  DeviceSource source{*gpu};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  ModelContext context{allocator, main};
  ModelMemory memory{allocator, main};

  void require_blas() {
    try {
      static_cast<void>(context.blas(main));
    } catch (const std::runtime_error& error) {
      SKIP(error.what());
    }
  }
};

/// Widths of less than a word, of odd words, of more than a warp takes at once; one hot row.
std::vector<TableConfig> tables() {
  return {{"narrow", 50, 3, Pooling::sum, {"a", "b"}},
          {"usual", 2000, 64, Pooling::mean, {"c", "d"}},
          {"wide", 30, 260, Pooling::sum, {"e"}},
          {"one", 1, 8, Pooling::mean, {"f"}}};
}
const std::vector<std::size_t> kRows{50, 50, 2000, 2000, 30, 1};
constexpr std::size_t kBatch = 300;

double worst_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double of = expected[i];
    worst = std::max(worst, std::abs(found[i] - of) / (0.01 + std::abs(of)));
  }
  return worst;
}

/// Some steps of embedding bags, and all that comes out of them.
template <typename Bench>
class BagSteps final : RowUpdateObserver {
 public:
  BagSteps(Bench& bench, const Optimizer& optimizer, std::optional<TableCache> cache = {})
      : bench_(bench),
        bags(bench.context, tables(), {.optimizer = optimizer, .observer = this, .cache = cache}) {}

  void run(bool weighted, int steps, std::size_t examples = kBatch) {
    std::mt19937_64 random{seed()};
    for (int i = 0; i < steps; ++i) {
      const HostBags batch = draw_bags(random, bags.features(), kRows, examples, 6, weighted);
      std::vector<float> gradient(examples * bags.columns());
      for (float& g : gradient) g = static_cast<float>(random() % 2001) / 1000.0F - 1;
      step(batch, gradient);
    }
    cached = cached_rows();
    ModelState state;
    bags.add_state(state, "");
    weights = bench_.memory.download(state);
  }

  /// In the cache, before its rows go home.
  [[nodiscard]] std::vector<std::int64_t> cached_rows() {
    std::vector<std::int64_t> rows = bags.cached_rows(bench_.main);
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  std::vector<float> pooled, factor_gradients, weights;
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> cached;

 private:
  void step(const HostBags& host, const std::vector<float>& host_gradient) {
    const KeyedJaggedTensor batch = bench_.memory.upload(host);
    const BatchTensor gradient = bench_.memory.upload(host_gradient);
    const PooledMatrix dpooled{gradient.template as<float>().data(), bags.columns(), 0};
    Array<float> out{bench_.allocator, host_gradient.size(), bench_.main};
    const HeldRows held = bags.prefetch(batch, bench_.main);
    bags.forward(batch, nullptr, {out.data(), bags.columns(), 0}, bench_.main);
    append(pooled, out);
    out = {bench_.allocator, host.value_count(), bench_.main};
    bags.factor_gradients(batch, dpooled, out.data(), bench_.main);
    append(factor_gradients, out);
    bags.backward(batch, nullptr, dpooled, bench_.main);
  }
  void append(std::vector<float>& to, const Array<float>& from) {
    const auto values = bench_.memory.download(static_cast<const float*>(from.data()), from.size());
    to.insert(to.end(), values.begin(), values.end());
  }
  void rows_updated(const RowUpdate& update) override {
    const std::uint32_t count = bench_.memory.download(update.count, 1)[0];
    const auto told = bench_.memory.download(static_cast<const std::int32_t*>(update.rows), count);
    rows.insert(rows.end(), told.begin(), told.end());
  }

  Bench& bench_;

 public:
  EmbeddingBags bags;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

SparseNNConfig small_model() {
  return {.dense_features = 13,
          .tables = {{"user", 400, 16, Pooling::sum, {"u"}},
                     {"item", 600, 16, Pooling::mean, {"bought", "seen"}}},
          .weighted_tables = {{"tag", 20, 16, Pooling::sum, {"t"}}},
          .position_weights = {{"seen", 3}},
          .dense_arch = {64, 16},
          .over_arch = {33, 16},
          .table_optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.05F},
          .dense_optimizer = {.kind = OptimizerKind::sgd, .learning_rate = 0.05F}};
}

template <typename Bench>
std::vector<float> weights_after(Bench& bench, const SparseNNConfig& config, int steps) {
  SparseNN model{bench.context, config};
  std::mt19937_64 random{seed()};
  for (int i = 0; i < steps; ++i) {
    HostExamples drawn{.dense_features = 13};
    drawn.sparse = draw_bags(random, {"u", "bought", "seen"}, {400, 600, 600}, 100, 5, false);
    drawn.weighted = draw_bags(random, {"t"}, {20}, 100, 4, true);
    for (int b = 0; b < 100; ++b) drawn.labels.push_back(static_cast<float>(random() % 2));
    for (int d = 0; d < 1300; ++d) {
      drawn.dense.push_back(static_cast<float>(random() % 2001) / 1000.0F - 1);
    }
    const InputTensors input = bench.memory.upload(drawn);
    train_plainly(model, bench.main, input, features_of(input));
  }
  CHECK(std::isfinite(model.loss()));
  return bench.memory.download(model.state());
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

TEST_CASE("embedding bags on a GPU do what they do on the host", "[gpu][model]") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                                   OptimizerKind::adagrad, OptimizerKind::adam}) {
    for (const bool weighted : {false, true}) {
      INFO(to_string(kind) << (weighted ? ", weighted" : ""));
      GpuBench gpu;
      ModelBench host;
      // Far above the rounding of a gradient: an adaptive step divides by it where a gradient
      // cancels to nearly 0, and would turn two roundings of one sum into different weights.
      const Optimizer optimizer{.kind = kind, .learning_rate = 0.05F, .epsilon = 1e-2F};
      BagSteps<GpuBench> there{gpu, optimizer};
      BagSteps<ModelBench> here{host, optimizer};
      there.run(weighted, 3);
      here.run(weighted, 3);
      CHECK(worst_difference(there.pooled, here.pooled) < 1e-4);
      CHECK(worst_difference(there.factor_gradients, here.factor_gradients) < 1e-3);
      CHECK(worst_difference(there.weights, here.weights) < 1e-4);
      CHECK(there.rows == here.rows);
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
  steps.bags.forward(on_device, nullptr, {out.data(), steps.bags.columns(), 0}, gpu.main);
  steps.bags.backward(on_device, nullptr, {out.data(), steps.bags.columns(), 0}, gpu.main);
  const auto told = steps.bags.invalid_id(gpu.main);
  REQUIRE(told);
  CHECK(told->table == "usual");
  CHECK(told->feature == "c");
  CHECK(told->value == 2000);
  CHECK_FALSE(steps.bags.invalid_id(gpu.main));
}

TEST_CASE("a model's weights after 20 steps of SGD on a GPU are the host's", "[gpu][model]") {
  GpuBench gpu;
  gpu.require_blas();
  for (const Interaction interaction : {Interaction::dot, Interaction::concatenate}) {
    SparseNNConfig config = small_model();
    config.interaction = interaction;
    ModelBench host;
    CHECK(worst_difference(weights_after(gpu, config, 20), weights_after(host, config, 20)) < 1e-4);
  }
}

TEST_CASE("training on a GPU gives the same bits again", "[gpu][model]") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    SparseNNConfig config = small_model();
    config.table_optimizer.kind = config.dense_optimizer.kind = kind;
    GpuBench first, second;
    first.require_blas();
    CHECK(weights_after(first, config, 8) == weights_after(second, config, 8));
  }
}

TEST_CASE("on a GPU cached tables give the bits of plain ones, and hold the rows that a host holds",
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

// For compute-sanitizer: each kernel of the model at least once, in few launches.

TEST_CASE("in small, embedding bags and their cache on a GPU do what they do on the host",
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
    there.run(cached, 2, kExamples);
    here.run(cached, 2, kExamples);
    CHECK(worst_difference(there.pooled, here.pooled) < 1e-4);
    CHECK(worst_difference(there.factor_gradients, here.factor_gradients) < 1e-3);
    CHECK(worst_difference(there.weights, here.weights) < 1e-4);
    CHECK(there.rows == here.rows);
    CHECK(there.cached == here.cached);
  }
}

TEST_CASE("in small, a model's weights on a GPU are the host's", "[gpu][model][kernels]") {
  GpuBench gpu;
  gpu.require_blas();
  for (const Interaction interaction : {Interaction::dot, Interaction::concatenate}) {
    SparseNNConfig config = small_model();
    config.interaction = interaction;
    ModelBench host;
    CHECK(worst_difference(weights_after(gpu, config, 1), weights_after(host, config, 1)) < 1e-4);
  }
}
