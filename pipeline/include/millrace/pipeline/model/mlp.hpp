#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/model/dense_parameters.hpp"

namespace millrace {

/**
 * @brief Linear layers with a bias, each followed by a ReLU.
 *
 * Initial weights and biases are uniform in ±1/sqrt(inputs), as in PyTorch's nn.Linear.
 */
class Mlp {
 public:
  enum class Last { relu, linear };  ///< whether a ReLU follows the last layer

  /** @param widths  outputs of each layer; without layers, the output is the input */
  Mlp(ModelContext& context, DenseParameters& parameters, const std::string& name,
      std::size_t inputs, std::span<const std::size_t> widths, Last last = Last::relu);

  [[nodiscard]] std::size_t outputs() const noexcept { return outputs_; }

  /**
   * @brief Enqueues the forward pass, and keeps every layer's output for `backward`.
   * @param x  [rows x inputs], not owned; must live until `backward` was called
   */
  void forward(const float* x, std::size_t rows, StreamRef stream);
  [[nodiscard]] const float* output() const noexcept;
  /**
   * @brief Gives the output to the caller. Allowed only if the last layer has no ReLU, because
   * backward then does not read the output.
   */
  [[nodiscard]] Array<float> take_output() noexcept;

  /**
   * @brief Enqueues the backward pass, and frees the outputs that `forward` kept.
   *
   * Adds to the gradients of the parameters.
   * @param gradient  gradient of the output; overwritten
   * @param wanted    whether to compute the gradient of the input
   * @return the gradient of the input; empty if it is not wanted
   */
  [[nodiscard]] Array<float> backward(Array<float> gradient, bool wanted, StreamRef stream);
  /** @brief Frees the outputs that `forward` kept. Call it if no `backward` follows. */
  void drop() noexcept;

 private:
  /** @brief One layer of the perceptron. */
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
