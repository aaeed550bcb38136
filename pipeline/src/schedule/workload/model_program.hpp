#pragma once

#include <vector>

#include "millrace/pipeline/model/train_model.hpp"
#include "schedule/workload/loop_work.hpp"

namespace millrace {

/**
 * @brief What a step of a workload computes on main, without data: lookups, dense layers, and back.
 *
 * Activations: of `workload.activations`, a quarter are pooled embeddings, a fifth their
 * interaction with the dense features, the rest layers that shrink towards the loss. Backward
 * allocates each gradient and frees, in reverse, what forward kept.
 */
class ModelProgram final : public TrainModel {
 public:
  /** @param step  compute time of a whole step, divided among its operations */
  ModelProgram(LoopWork& work, const Workload& workload, Nanoseconds step);

  void zero_gradients() override;
  void forward(const InputTensors& input, const SparseFeatures& features) override;
  void backward() override;
  void optimizer_step() override;
  void abandon() noexcept override;

 private:
  struct Layer {
    std::size_t output_bytes = 0, mask_bytes = 0;
    Buffer output, mask;
  };

  [[nodiscard]] Buffer allocate(std::size_t bytes) {
    return work_.allocate(bytes, work_.streams.main, activations_tag_);
  }
  [[nodiscard]] Cost share(double weight) const;
  void plan_layers(const Workload& workload);
  void look_up();
  void update_tables(Buffer pooled_gradient);
  void forward_layers();
  [[nodiscard]] Buffer backward_layers();

  LoopWork& work_;
  const Tag activations_tag_;
  const Nanoseconds step_;
  const std::size_t pooled_bytes_, interaction_bytes_, dense_bytes_;

  Buffer unweighted_tables_, weighted_tables_, parameters_, gradients_;
  Buffer pooled_, interaction_, dense_, loss_;
  std::vector<Layer> layers_;
  SparseFeatures features_;  ///< of the step under way
};

}  // namespace millrace
