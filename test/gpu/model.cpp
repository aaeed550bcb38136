#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
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

/// Whether sums of gradients may round. Exact ones are the same in every order: their terms are
/// multiples of 2^-9 (a gradient of 1/16, a factor of 1/8, a bag of 1, 2 or 4 ids) and their sums
/// less than 2^13, so that 24 bits hold them.
enum class Sums { rounded, exact };

constexpr std::size_t kLongestBag = 6;

HostBags draw_batch(std::mt19937_64& random, const std::vector<std::string>& features,
                    std::size_t examples, bool weighted, Sums sums) {
  HostBags batch = draw_bags(random, features, kRows, examples, kLongestBag, weighted);
  if (sums == Sums::rounded) return batch;
  for (std::size_t f = 0; f < batch.bags.size(); ++f) {
    for (std::size_t b = 0; b < examples; ++b) {
      auto& bag = batch.bags[f][b];
      bag.resize(std::bit_floor(bag.size()));
      if (!weighted) continue;
      auto& weights = batch.weights[f][b];
      weights.resize(bag.size());
      for (float& weight : weights) weight = std::round(weight * 8) / 8;
    }
  }
  return batch;
}

std::vector<float> draw_gradient(std::mt19937_64& random, std::size_t size, Sums sums) {
  std::vector<float> gradient(size);
  for (float& g : gradient) {
    g = sums == Sums::exact ? static_cast<float>(random() % 33) / 16 - 1
                            : static_cast<float>(random() % 2001) / 1000.0F - 1;
  }
  return gradient;
}

/// Some steps of embedding bags, and all that comes out of them.
template <typename Bench>
class BagSteps final : RowUpdateObserver {
 public:
  BagSteps(Bench& bench, const Optimizer& optimizer, std::optional<TableCache> cache = {})
      : bench_(bench),
        bags(bench.context, tables(), {.optimizer = optimizer, .observer = this, .cache = cache}) {}

  /// @param after_step  called before the first step too
  void run(
      bool weighted, int steps, std::size_t examples = kBatch, Sums sums = Sums::rounded,
      const std::function<void()>& after_step = [] {}) {
    std::mt19937_64 random{seed()};
    after_step();
    for (int i = 0; i < steps; ++i) {
      const HostBags batch = draw_batch(random, bags.features(), examples, weighted, sums);
      step(batch, draw_gradient(random, examples * bags.columns(), sums));
      after_step();
    }
    cached = cached_rows();
    weights = bench_.memory.download(state());
  }

  [[nodiscard]] ModelState state() {
    ModelState state;
    bags.add_state(state, "");
    return state;
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

/// The most that two ways to round may differ by, where sums of gradients are exact.
struct Bounds {
  std::vector<double> weights;  ///< of each number of the state
  double pooled = 0, factor_gradients = 0;
};

constexpr double kUnit = 0x1p-24;  // the relative error of one operation

/// Roundings of a step in units of the largest value that the number had: a step is at most twice
/// that, and its own relative error is what its operations add up to. A root halves an error.
double roundings_of_step(OptimizerKind kind, double width, int steps) {
  switch (kind) {
    case OptimizerKind::none:
      return 0;
    case OptimizerKind::sgd:  // the product, the difference
      return 2 + 1;
    case OptimizerKind::rowwise_adagrad:  // a sum of squares; root, epsilon, quotient, product
      return 2 * ((width + 2 + steps) / 2 + 4) + 1;
    case OptimizerKind::adagrad:  // squares of all steps; likewise
      return 2 * (2 * steps / 2.0 + 4) + 1;
    case OptimizerKind::adam:  // of m, which adds 0.9 of itself and what is 1.9 of it at most
      return 8;
  }
  return 0;
}

/// Of Adam's step: m may cancel, and its error is then one of the largest gradient's, by which v
/// divides: the root of v is at least that gradient's by the root of the number of steps.
double roundings_of_adam(const Optimizer& optimizer, int steps) {
  if (optimizer.kind != OptimizerKind::adam) return 0;
  return static_cast<double>(optimizer.learning_rate) * std::sqrt(steps) * (2 * steps + 9);
}

/// By the weights and the state that plain tables have on the host.
Bounds bounds_of(const Optimizer& optimizer, bool weighted, int steps, std::size_t examples) {
  ModelBench host;
  BagSteps<ModelBench> trace{host, optimizer};
  std::vector<float> largest;
  trace.run(weighted, steps, examples, Sums::exact, [&] {
    const std::vector<float> now = host.memory.download(trace.state());
    largest.resize(now.size());
    for (std::size_t i = 0; i < now.size(); ++i) {
      largest[i] = std::max(largest[i], std::abs(now[i]));
    }
  });

  Bounds bounds;
  double weight = 0, of_weight = 0, widest = 0;
  std::size_t i = 0;
  for (const StateTensor& tensor : trace.state().tensors) {
    const std::size_t end = i + tensor.size;
    double width = 0;
    for (const TableConfig& table : tables()) {
      if (tensor.name.starts_with("." + table.name + ".")) width = static_cast<double>(table.width);
    }
    widest = std::max(widest, width);
    for (; i < end; ++i) {
      const double of_step = roundings_of_step(optimizer.kind, width, steps) * largest[i] +
                             roundings_of_adam(optimizer, steps);
      bounds.weights.push_back(2 * steps * kUnit * of_step);  // each of the two may be off by it
      if (!tensor.name.ends_with(".weights")) continue;
      weight = std::max<double>(weight, largest[i]);
      of_weight = std::max(of_weight, bounds.weights.back());
    }
  }
  // Sums of products with weights: what the weights differ by, and a rounding for each operation.
  constexpr double kLargestFactor = 1.25, kIds = 4;  // of exact draws
  const auto of_sum = [&](double terms) {
    return terms * (of_weight + 2 * (terms + 2) * kUnit * weight);
  };
  bounds.pooled = kLargestFactor * of_sum(kIds);
  bounds.factor_gradients = of_sum(widest);  // gradients are at most 1
  return bounds;
}

/// @return the largest difference as a share of its bound: at most 1 if all keep theirs
double largest_share(const std::vector<float>& found, const std::vector<float>& expected,
                     const std::function<double(std::size_t)>& bound) {
  REQUIRE(found.size() == expected.size());
  double share = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(double{found[i]} - double{expected[i]});
    if (off != 0) share = std::max(share, off / bound(i));
    if (!std::isfinite(off)) return std::numeric_limits<double>::infinity();
  }
  return share;
}

template <typename There, typename Here>
void check_alike(const There& there, const Here& here, const Bounds& bounds) {
  const auto all = [](double bound) { return [bound](std::size_t) { return bound; }; };
  CHECK(largest_share(there.pooled, here.pooled, all(bounds.pooled)) <= 1);
  CHECK(largest_share(there.factor_gradients, here.factor_gradients,
                      all(bounds.factor_gradients)) <= 1);
  CHECK(largest_share(there.weights, here.weights,
                      [&](std::size_t i) { return bounds.weights[i]; }) <= 1);
  CHECK(there.rows == here.rows);
}

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

// Sums in another order round otherwise; Adagrad and Adam divide the difference by a small root,
// and where the sum of a bag cancels, nothing bounds what is left of it. So sums are exact here;
// test/kernels holds sums that round to the host's, step by step.
TEST_CASE("embedding bags on a GPU do what they do on the host", "[gpu][model]") {
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
    there.run(cached, 2, kExamples, Sums::exact);
    here.run(cached, 2, kExamples, Sums::exact);
    check_alike(there, here, bounds_of(optimizer, cached, 2, kExamples));
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
