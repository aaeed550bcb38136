#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "test/support/model_bench.hpp"

namespace millrace::test {

/// Embedding bags computed from the formulas in double precision, one example and one row at a
/// time, without sorting and without runs. It shares no code with the model.
class EmbeddingReference {
 public:
  EmbeddingReference(std::vector<TableConfig> tables, Optimizer optimizer);

  /// Sets the initial weights. Tests pass the model's.
  void set_weights(std::size_t table, const std::vector<float>& weights);
  [[nodiscard]] const std::vector<double>& weights(std::size_t table) const {
    return tables_[table].weights;
  }
  /// [batch x columns]
  [[nodiscard]] std::vector<double> look_up(const HostBags& batch) const;
  /// The gradient of each id's factor, in the order of the batch.
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
