#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/model/dense_parameters.hpp"

namespace millrace {

/**
 * @brief Linear layers with a bias, each followed by a ReLU. Starts as PyTorch's nn.Linear: uniform
 *        in +-1/sqrt(inputs).
 */
class Mlp {
 public:
  enum class Last { relu, linear };  ///< whether a ReLU follows the last layer

  /** @param widths  of the layers; none: the output is the input */
  Mlp(ModelContext& context, DenseParameters& parameters, const std::string& name,
      std::size_t inputs, std::span<const std::size_t> widths, Last last = Last::relu);

  [[nodiscard]] std::size_t outputs() const noexcept { return outputs_; }

  /** @brief Enqueues; keeps every layer's output, and `x` [rows x inputs] has to stay as well. */
  void forward(const float* x, std::size_t rows, StreamRef stream);
  [[nodiscard]] const float* output() const noexcept;
  /** @brief The output, for the caller to keep: of a last layer without ReLU, whose backward does
   *         not read it. */
  [[nodiscard]] Array<float> take_output() noexcept;

  /**
   * @brief Enqueues; adds to the gradients of the parameters, and frees what forward kept.
   * @param gradient  of the output; is used up
   * @return the gradient of the input; empty unless it is `wanted`
   */
  [[nodiscard]] Array<float> backward(Array<float> gradient, bool wanted, StreamRef stream);
  /** @brief Frees what forward kept. */
  void drop() noexcept;

 private:
  struct Layer {
    std::size_t inputs = 0, outputs = 0;
    bool relu = true;
    Parameter weight, bias;
    Array<float> output;
  };

  ModelContext& context_;
  DenseParameters& parameters_;
  std::size_t outputs_;
  std::vector<Layer> layers_;
  const float* x_ = nullptr;
  std::size_t rows_ = 0;
};

}  // namespace millrace
