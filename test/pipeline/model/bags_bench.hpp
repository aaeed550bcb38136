#pragma once

#include <array>
#include <utility>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

constexpr std::array kRowOptimizers{OptimizerKind::sgd, OptimizerKind::rowwise_adagrad,
                                    OptimizerKind::adagrad, OptimizerKind::adam};

inline Optimizer row_optimizer(OptimizerKind kind) {
  return {.kind = kind, .learning_rate = 0.1F, .epsilon = 1e-6F};
}

/// Embedding bags on a virtual device. Inputs and outputs are on the host.
struct BagsBench {
  BagsBench(std::vector<TableConfig> configs, const EmbeddingOptions& options)
      : bags(bench.context, std::move(configs), options) {}

  std::vector<float> look_up(const HostBags& batch) {
    const Array<float> pooled{bench.allocator, batch.batch * bags.columns(), bench.main};
    bags.look_up(bench.memory.upload(batch), nullptr, {pooled.data(), bags.columns(), 0},
                 bench.main);
    return bench.memory.download(static_cast<const float*>(pooled.data()), pooled.size());
  }
  void update(const HostBags& batch, const std::vector<float>& gradient) {
    const BatchTensor on_device = bench.memory.upload(gradient);
    bags.update(bench.memory.upload(batch), nullptr,
                {on_device.as<float>().data(), bags.columns(), 0}, bench.main);
  }
  std::vector<float> factor_gradients(const HostBags& batch, const std::vector<float>& gradient) {
    const Array<float> out{bench.allocator, batch.value_count(), bench.main};
    const BatchTensor on_device = bench.memory.upload(gradient);
    bags.factor_gradients(bench.memory.upload(batch),
                          {on_device.as<float>().data(), bags.columns(), 0}, out.data(),
                          bench.main);
    return bench.memory.download(static_cast<const float*>(out.data()), out.size());
  }

  ModelBench bench;
  EmbeddingBags bags;
};

}  // namespace millrace::test
