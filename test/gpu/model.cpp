#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "millrace/pipeline/model/sparse_nn.hpp"
#include "test/gpu/gpu_bench.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

/// Compares the CUDA kernels with the host kernels. The tests of the pipeline compare those with
/// formulas in double.

using namespace millrace;
using namespace millrace::test;

namespace {

double worst_difference(const std::vector<float>& found, const std::vector<float>& expected) {
  REQUIRE(found.size() == expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double of = expected[i];
    worst = std::max(worst, std::abs(found[i] - of) / (0.01 + std::abs(of)));
  }
  return worst;
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

void compare_with_host(int steps) {
  GpuBench gpu;
  gpu.require_blas();
  for (const Interaction interaction : {Interaction::dot, Interaction::concatenate}) {
    SparseNNConfig config = small_model();
    config.interaction = interaction;
    ModelBench host;
    CHECK(worst_difference(weights_after(gpu, config, steps), weights_after(host, config, steps)) <
          1e-4);
  }
}

}  // namespace

TEST_CASE("a model's weights after 20 steps of SGD on a GPU agree with the host's",
          "[gpu][model]") {
  compare_with_host(20);
}

TEST_CASE("two trainings on a GPU give the same bits", "[gpu][model]") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adam}) {
    SparseNNConfig config = small_model();
    config.table_optimizer.kind = config.dense_optimizer.kind = kind;
    GpuBench first, second;
    first.require_blas();
    CHECK(weights_after(first, config, 8) == weights_after(second, config, 8));
  }
}

// For compute-sanitizer: runs each kernel of the model at least once, in few launches.

TEST_CASE("a model's weights after one step on a GPU agree with the host's",
          "[gpu][model][kernels]") {
  compare_with_host(1);
}
