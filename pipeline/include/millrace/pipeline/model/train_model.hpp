#pragma once

#include "millrace/pipeline/data/keyed_jagged_tensor.hpp"
#include "millrace/pipeline/data/model_input.hpp"

namespace millrace {

/** @brief The sparse features of a batch as lookups read them: after their exchange. */
struct SparseFeatures {
  KeyedJaggedTensor unweighted;
  KeyedJaggedTensor weighted;
};

/**
 * @brief A model as a pipeline drives it. Everything is enqueued on the main stream, in the order
 * of the calls; nothing waits for the device.
 *
 * A step is zero_gradients, forward, backward, optimizer_step, in this order; each once, but that a
 * step that did not get as far as forward begins again. A pipeline makes main wait for the inputs
 * before, and frees them after.
 */
class TrainModel {
 public:
  virtual ~TrainModel() = default;

  virtual void zero_gradients() = 0;

  /**
   * @brief Loss of a batch, keeping what backward needs.
   *
   * Only forward reads `input`: it may be freed, ordered on main, when this returns. `features` are
   * read by backward as well; the model keeps them (copies share the memory) until then.
   * @throws out_of_memory, DeviceError; the step is then given up: `abandon`
   */
  virtual void forward(const InputTensors& input, const SparseFeatures& features) = 0;

  /** @brief Gradients of the dense parameters; the tables are updated on the way, fused. */
  virtual void backward() = 0;

  /** @brief Updates the dense parameters. */
  virtual void optimizer_step() = 0;

  /** @brief Lets go of what an unfinished step keeps. Parameters are as the calls so far made them.
   */
  virtual void abandon() noexcept = 0;

 protected:
  TrainModel() = default;
  TrainModel(const TrainModel&) = default;
  TrainModel& operator=(const TrainModel&) = default;
};

}  // namespace millrace
