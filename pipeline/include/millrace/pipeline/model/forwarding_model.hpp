#pragma once

#include <memory>
#include <string>

#include "millrace/pipeline/model/train_model.hpp"

namespace millrace {

/**
 * @brief Forwards every call to another model. Derive from it to change some calls.
 *
 * The other model outlives this object. Errors and ordering are those of the other model.
 */
class ForwardingModel : public TrainModel {
 public:
  explicit ForwardingModel(TrainModel& model) : model_(model) {}

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
  void optimizer_step() override { model_.optimizer_step(); }
  void swap_gradients(Buffer& other) override { model_.swap_gradients(other); }
  void abandon() noexcept override { model_.abandon(); }
  [[nodiscard]] std::string dense_parameters_of_lookups() const override {
    return model_.dense_parameters_of_lookups();
  }
  [[nodiscard]] bool trains() const noexcept override { return model_.trains(); }

 private:
  TrainModel& model_;
};

}  // namespace millrace
