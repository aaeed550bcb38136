#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "millrace/pipeline/model/model_context.hpp"
#include "millrace/pipeline/model/model_state.hpp"
#include "millrace/pipeline/model/optimizer.hpp"

namespace millrace {

/**
 * @brief One parameter (a matrix or a vector): its range in the array of all parameters of the
 * model.
 */
struct Parameter {
  std::size_t offset = 0, size = 0;
};

/**
 * @brief All dense parameters of a model, and their optimizer.
 *
 * Values, gradients and the optimizer's state have one array each. Setting gradients to
 * zero is therefore one operation, and so is a step. Add every parameter first, then call `create`.
 */
class DenseParameters {
 public:
  /** @throws std::invalid_argument for an optimizer that keeps state for each row of a table */
  DenseParameters(ModelContext& context, const Optimizer& optimizer, std::uint64_t seed);

  /** @brief Adds a parameter, initially uniform in ±bound and drawn from the seed and the name. */
  Parameter add_uniform(std::string name, std::size_t size, float bound);
  /** @brief Adds a parameter whose numbers are all `value` initially. */
  Parameter add_constant(std::string name, std::size_t size, float value);
  /** @brief Allocates the arrays, and enqueues their initialization on the main stream. */
  void create();

  [[nodiscard]] float* values(Parameter parameter) const {
    return values_.data() + parameter.offset;
  }
  [[nodiscard]] float* gradients(Parameter parameter) const {
    return gradients_.data() + parameter.offset;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }  ///< scalars, padding included

  void zero_gradients(StreamRef stream);
  void step(StreamRef stream);
  /** @brief Returns the bytes of device memory that a step reads and writes. */
  [[nodiscard]] double step_bytes() const;
  /**
   * @brief Records that `stream` also uses the gradients: their memory is not reused before that
   * use.
   */
  void record_gradient_use(StreamRef stream) { gradients_.buffer().record_use(stream); }
  /** @brief See `TrainModel::swap_gradients`. */
  void swap_gradients(Buffer& other);

  /** @brief Adds the parameters and their optimizer state, for a checkpoint, to `state`. */
  void add_state(ModelState& state);
  /** @brief Returns each parameter's part of `array` [size], as a tensor named `prefix` + name. */
  [[nodiscard]] std::vector<StateTensor> tensors_in(float* array, const std::string& prefix) const;
  /** @brief Allocates an array on `stream` and enqueues a copy of all values into it. */
  [[nodiscard]] Array<float> copy_values(StreamRef stream) const;
  /** @brief Enqueues a copy of `from` [size] into the values. */
  void set_values(const Array<float>& from, StreamRef stream);

 private:
  /** @brief A parameter and its name in a checkpoint. */
  struct Named {
    std::string name;
    Parameter parameter;
    float bound = 0, value = 0;
  };
  Parameter add(Named named);

  ModelContext& context_;
  const Optimizer optimizer_;
  const std::uint64_t seed_;
  std::vector<Named> named_;
  std::size_t size_ = 0;
  std::uint64_t steps_ = 0;
  Array<float> values_, gradients_, first_moment_, second_moment_;
};

}  // namespace millrace
