#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace::test {

/// The smallest model that detects work in the wrong order. Weighted and unweighted sums of
/// embeddings and the dense features are the inputs of one linear layer. SGD trains all parameters.
/// The model has host kernels and keeps what it needs as TrainModel asks.
class TinyModel final : public TrainModel {
 public:
  static constexpr std::size_t kRows = 11, kWidth = 3, kDense = 2;
  static constexpr std::size_t kInputs = 2 * kWidth + kDense;

  TinyModel(Allocator& memory, Stream& main);

  [[nodiscard]] static std::vector<std::string> features() { return {"b", "a"}; }
  [[nodiscard]] static std::vector<std::string> weighted_features() { return {"w"}; }

  void zero_gradients() override;
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override;
  void forward(const InputTensors& input, TableLookup& lookup) override;
  void backward(TableLookup& lookup) override;
  void update_tables(TableLookup& lookup, Stream& stream) override;
  void optimizer_step() override;
  void swap_gradients(Buffer& other) override;
  void abandon() noexcept override;

  /// All trained parameters. Waits for main.
  [[nodiscard]] std::vector<float> parameters();

 private:
  static constexpr std::size_t kColumns = 2 * kWidth;  // columns of a lookup
  struct Lookup;

  void launch(Operation operation) { launch(std::move(operation), main_); }
  void launch(Operation operation, const Stream& stream);
  void look_up(const Lookup& lookup, const KeyedJaggedTensor& features, const Array<float>& table,
               std::size_t column, const Stream& stream);
  void update(const Lookup& lookup, const KeyedJaggedTensor& features, const Array<float>& table,
              std::size_t column, const Stream& stream);

  Allocator& memory_;
  Stream& main_;
  Array<float> table_, weighted_table_;    // [kRows x kWidth]
  Array<float> linear_, linear_gradient_;  // [kInputs]
  Array<float> inputs_;                    // [batch x kInputs]
  Array<float> errors_;                    // [batch]
};

}  // namespace millrace::test
