#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

/// Embedding bags written down from the formulas, in double: example by example and row by row,
/// with no sorting and no runs. Shares no code with the model.
class EmbeddingReference {
 public:
  EmbeddingReference(std::vector<TableConfig> tables, Optimizer optimizer);

  /// Takes the weights that the model starts with.
  void set_weights(std::size_t table, const std::vector<float>& weights);
  [[nodiscard]] const std::vector<double>& weights(std::size_t table) const {
    return tables_[table].weights;
  }
  /// [batch x columns]
  [[nodiscard]] std::vector<double> look_up(const HostBags& batch) const;
  /// Of each id, in the batch's order.
  [[nodiscard]] std::vector<double> factor_gradients(const HostBags& batch,
                                                     const std::vector<float>& gradient) const;
  void update(const HostBags& batch, const std::vector<float>& gradient);
  [[nodiscard]] std::size_t columns() const { return columns_; }

 private:
  struct Table {
    std::size_t width;
    std::vector<double> weights, m, v;
  };
  struct Feature {
    std::size_t table, column;
    bool mean;
  };
  /// Calls `use(feature, example, id, factor)` for each id of the batch.
  template <typename Use>
  void for_each_id(const HostBags& batch, const Use& use) const;
  void follow(Table& table, std::int64_t row, const std::vector<double>& gradient);

  Optimizer optimizer_;
  std::vector<Table> tables_;
  std::vector<Feature> features_;
  std::size_t columns_ = 0;
  int step_ = 0;
};

}  // namespace millrace::test
