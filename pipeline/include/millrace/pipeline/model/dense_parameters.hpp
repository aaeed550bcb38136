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

/** @brief Which of the dense parameters: a matrix, a vector. */
struct Parameter {
  std::size_t offset = 0, size = 0;
};

/**
 * @brief All dense parameters of a model, and their optimizer: one array each for values, gradients
 *        and state, so that zeroing and stepping are one operation each.
 *
 * Declare every parameter, then `create`.
 */
class DenseParameters {
 public:
  /** @throws std::invalid_argument for row-wise Adagrad: dense parameters have no rows */
  DenseParameters(ModelContext& context, const Optimizer& optimizer, std::uint64_t seed);

  /** @brief Starts uniform in +-bound, drawn from the seed and the name. */
  Parameter add_uniform(std::string name, std::size_t size, float bound);
  Parameter add_constant(std::string name, std::size_t size, float value);
  /** @brief Allocates, and enqueues the initialisation on main. */
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
  /** @brief What a step reads and writes of device memory. */
  [[nodiscard]] double step_bytes() const;
  /** @brief The gradients are used by `stream` too. */
  void record_gradient_use(StreamRef stream) { gradients_.buffer().record_use(stream); }
  /** @brief As `TrainModel::swap_gradients`. */
  void swap_gradients(Buffer& other);

  /** @brief Adds what a checkpoint has to keep. */
  void add_state(ModelState& state);
  /** @brief The numbers of each parameter in `array` [size], as a tensor called `prefix` + name. */
  [[nodiscard]] std::vector<StateTensor> tensors_in(float* array, const std::string& prefix) const;
  /** @brief A copy of all values, enqueued on `stream`, as which it is allocated. */
  [[nodiscard]] Array<float> copy_values(StreamRef stream) const;
  /** @brief Enqueues a copy of `from` [size] into the values. */
  void set_values(const Array<float>& from, StreamRef stream);

 private:
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
  Array<float> values_, gradients_, m_, v_;
};

}  // namespace millrace
