#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "millrace/device/stream.hpp"
#include "millrace/memory/buffer.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace::test {

/// The smallest model that notices whatever is out of order: sums of embeddings, weighted and not,
/// beside dense features, into one linear layer; everything is trained by SGD, the tables in
/// backward. It has host kernels, and keeps what it needs as TrainModel asks.
class TinyModel final : public TrainModel {
 public:
  static constexpr std::size_t kRows = 11, kWidth = 3, kDense = 2;
  static constexpr std::size_t kInputs = 2 * kWidth + kDense;

  TinyModel(Allocator& memory, Stream& main);

  [[nodiscard]] static std::vector<std::string> features() { return {"b", "a"}; }
  [[nodiscard]] static std::vector<std::string> weighted_features() { return {"w"}; }

  void zero_gradients() override;
  void forward(const InputTensors& input, const SparseFeatures& features) override;
  void backward() override;
  void optimizer_step() override;
  void abandon() noexcept override;

  /// All that was trained. Waits for main.
  [[nodiscard]] std::vector<float> parameters();

 private:
  void launch(Operation operation);
  void look_up(const KeyedJaggedTensor& features, const Array<float>& table, std::size_t column);
  void update(const KeyedJaggedTensor& features, const Array<float>& table, std::size_t column);

  Allocator& memory_;
  Stream& main_;
  Array<float> table_, weighted_table_;    // [kRows x kWidth]
  Array<float> linear_, linear_gradient_;  // [kInputs]
  std::size_t batch_ = 0;
  SparseFeatures features_;
  Array<float> inputs_;  // [batch x kInputs]
  Array<float> errors_;  // [batch]
};

}  // namespace millrace::test
