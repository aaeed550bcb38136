#include "test/pipeline/model/embedding_reference.hpp"

#include <cmath>

namespace millrace::test {

EmbeddingReference::EmbeddingReference(std::vector<TableConfig> tables, Optimizer optimizer)
    : optimizer_(optimizer) {
  for (const TableConfig& table : tables) {
    for (std::size_t i = 0; i < table.features.size(); ++i) {
      features_.push_back({tables_.size(), columns_, table.pooling == Pooling::mean});
      columns_ += table.width;
    }
    const std::size_t size = table.rows * table.width;
    const bool by_row = optimizer.kind == OptimizerKind::rowwise_adagrad;
    tables_.push_back({table.width, std::vector<double>(size),
                       std::vector<double>(by_row ? table.rows : size), std::vector<double>(size)});
  }
}

void EmbeddingReference::set_weights(std::size_t table, const std::vector<float>& weights) {
  tables_[table].weights.assign(weights.begin(), weights.end());
}

template <typename Use>
void EmbeddingReference::for_each_id(const HostBags& batch, const Use& use) const {
  for (std::size_t f = 0; f < features_.size(); ++f) {
    for (std::size_t b = 0; b < batch.batch; ++b) {
      const auto& bag = batch.bags[f][b];
      for (std::size_t i = 0; i < bag.size(); ++i) {
        double factor = batch.weights.empty() ? 1.0 : batch.weights[f][b][i];
        if (features_[f].mean) factor /= static_cast<double>(bag.size());
        use(features_[f], b, bag[i], factor);
      }
    }
  }
}

std::vector<double> EmbeddingReference::look_up(const HostBags& batch) const {
  std::vector<double> pooled(batch.batch * columns_);
  for_each_id(batch, [&](const Feature& feature, std::size_t b, std::int64_t id, double factor) {
    const Table& table = tables_[feature.table];
    for (std::size_t d = 0; d < table.width; ++d) {
      pooled[b * columns_ + feature.column + d] +=
          factor * table.weights[static_cast<std::size_t>(id) * table.width + d];
    }
  });
  return pooled;
}

std::vector<double> EmbeddingReference::factor_gradients(const HostBags& batch,
                                                         const std::vector<float>& gradient) const {
  std::vector<double> gradients;
  for (std::size_t f = 0; f < features_.size(); ++f) {
    const Table& table = tables_[features_[f].table];
    for (std::size_t b = 0; b < batch.batch; ++b) {
      for (const std::int64_t id : batch.bags[f][b]) {
        double sum = 0;
        for (std::size_t d = 0; d < table.width; ++d) {
          sum += static_cast<double>(gradient[b * columns_ + features_[f].column + d]) *
                 table.weights[static_cast<std::size_t>(id) * table.width + d];
        }
        if (features_[f].mean) sum /= static_cast<double>(batch.bags[f][b].size());
        gradients.push_back(sum);
      }
    }
  }
  return gradients;
}

// Applies one optimizer step to one row. `m` and `v` are the optimizer's state.
void EmbeddingReference::follow(Table& table, std::int64_t row,
                                const std::vector<double>& gradient) {
  const double rate = optimizer_.learning_rate, eps = optimizer_.epsilon;
  const double beta1 = optimizer_.beta1, beta2 = optimizer_.beta2;
  const auto r = static_cast<std::size_t>(row);
  if (optimizer_.kind == OptimizerKind::rowwise_adagrad) {
    double mean = 0;
    for (const double g : gradient) mean += g * g / static_cast<double>(table.width);
    table.m[r] += mean;
    for (std::size_t d = 0; d < table.width; ++d) {
      table.weights[r * table.width + d] -= rate * gradient[d] / (std::sqrt(table.m[r]) + eps);
    }
    return;
  }
  for (std::size_t d = 0; d < table.width; ++d) {
    const double g = gradient[d];
    double& w = table.weights[r * table.width + d];
    double& m = table.m[r * table.width + d];
    double& v = table.v[r * table.width + d];
    switch (optimizer_.kind) {
      case OptimizerKind::sgd:
        w -= rate * g;
        break;
      case OptimizerKind::adagrad:
        m += g * g;
        w -= rate * g / (std::sqrt(m) + eps);
        break;
      case OptimizerKind::adam:
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g * g;
        w -= rate * (m / (1 - std::pow(beta1, step_))) /
             (std::sqrt(v / (1 - std::pow(beta2, step_))) + eps);
        break;
      default:
        break;
    }
  }
}

void EmbeddingReference::update(const HostBags& batch, const std::vector<float>& gradient) {
  ++step_;
  std::vector<std::map<std::int64_t, std::vector<double>>> gradients(tables_.size());
  for_each_id(batch, [&](const Feature& feature, std::size_t b, std::int64_t id, double factor) {
    std::vector<double>& sum = gradients[feature.table][id];
    sum.resize(tables_[feature.table].width);
    for (std::size_t d = 0; d < sum.size(); ++d) {
      sum[d] += factor * static_cast<double>(gradient[b * columns_ + feature.column + d]);
    }
  });
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    for (const auto& [row, sum] : gradients[t]) follow(tables_[t], row, sum);
  }
}

}  // namespace millrace::test
