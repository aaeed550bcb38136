#pragma once

#include "millrace/pipeline/model/sparse_nn.hpp"

namespace millrace {

/**
 * @brief A model whose dense optimizer takes longer than its own: what it reads and writes, it goes
 *        over so many times. For comparisons of costs; what is computed does not change.
 */
class LongerOptimizer final : public TrainModel {
 public:
  /** @param times  at least 1 */
  LongerOptimizer(SparseNN& model, Allocator& memory, Stream& main, double times)
      : model_(model), memory_(memory), main_(main), times_(times) {}

  void zero_gradients() override { model_.zero_gradients(); }
  std::unique_ptr<TableLookup> prefetch(const SparseFeatures& features, Stream& stream) override {
    return model_.prefetch(features, stream);
  }
  void look_up_prefetched(TableLookup& lookup, Stream& stream) override {
    model_.look_up_prefetched(lookup, stream);
  }
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override {
    return model_.look_up(features, stream);
  }
  void forward(const InputTensors& input, TableLookup& lookup) override {
    model_.forward(input, lookup);
  }
  void backward(TableLookup& lookup) override { model_.backward(lookup); }
  void update_tables(TableLookup& lookup, Stream& stream) override {
    model_.update_tables(lookup, stream);
  }
  void optimizer_step() override;
  void swap_gradients(Buffer& other) override { model_.swap_gradients(other); }
  void abandon() noexcept override { model_.abandon(); }
  std::string dense_parameters_of_lookups() const override {
    return model_.dense_parameters_of_lookups();
  }

 private:
  SparseNN& model_;
  Allocator& memory_;
  Stream& main_;
  const double times_;
};

}  // namespace millrace
