#pragma once

#include "millrace/pipeline/model/sparse_nn.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

/// A model of two tables, one weighted table and a few layers.
inline SparseNNConfig small_model(OptimizerKind of_tables = OptimizerKind::rowwise_adagrad) {
  return {.dense_features = 3,
          .tables = {{"user", 40, 8, Pooling::sum, {"u"}},
                     {"item", 60, 8, Pooling::mean, {"bought", "seen"}}},
          .weighted_tables = {{"tag", 20, 8, Pooling::sum, {"t"}}},
          .position_weights = {{"seen", 3}},
          .dense_arch = {16, 8},
          .over_arch = {16},
          .table_optimizer = {.kind = of_tables, .learning_rate = 0.05F},
          .dense_optimizer = {.kind = OptimizerKind::adam, .learning_rate = 0.01F},
          .seed = seed()};
}

}  // namespace millrace::test
