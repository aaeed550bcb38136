#pragma once

#include <vector>

#include "schedule/loop_work.hpp"
#include "schedule/sparse_exchange.hpp"

namespace millrace {

/**
 * @brief What a step computes on main: lookups, dense layers, and back.
 *
 * Activations: of `workload.activations`, a quarter are pooled embeddings, a fifth their
 * interaction with the dense features, the rest layers that shrink towards the loss. Backward
 * allocates each gradient and frees, in reverse, what forward kept.
 */
class ModelProgram {
 public:
  /** @param step  compute time of a whole step, divided among its operations */
  ModelProgram(LoopWork& work, const Workload& workload, Nanoseconds step);

  void zero_gradients();
  void forward(const DeviceBatch& batch, const SparseFeatures& features);
  void backward(const SparseFeatures& features);
  void optimizer_step();

 private:
  struct Layer {
    std::size_t output_bytes = 0, mask_bytes = 0;
    Buffer output, mask;
  };

  [[nodiscard]] Buffer allocate(std::size_t bytes) {
    return work_.allocate(bytes, work_.main, activations_tag_);
  }
  [[nodiscard]] Cost share(double weight) const;
  void plan_layers(const Workload& workload);
  void look_up(const SparseFeatures& features);
  void update_tables(Buffer pooled_gradient, const SparseFeatures& features);
  void forward_layers();
  [[nodiscard]] Buffer backward_layers();

  LoopWork& work_;
  const Tag activations_tag_;
  const Nanoseconds step_;
  const std::size_t pooled_bytes_, interaction_bytes_, dense_bytes_;

  Buffer unweighted_tables_, weighted_tables_, parameters_, gradients_;
  Buffer pooled_, interaction_, dense_, loss_;
  std::vector<Layer> layers_;
};

}  // namespace millrace
