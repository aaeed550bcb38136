#pragma once

#include <memory>
#include <vector>

#include "loop/loop_work.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace::experiment {

/**
 * @brief The operations of a workload's step, without data: lookups, dense layers, and backward.
 *
 * A quarter of `workload.activations` are pooled embeddings, a fifth is their interaction with the
 * dense features, and the rest are layers that shrink towards the loss. Backward allocates each
 * gradient, and frees in reverse order what forward kept.
 */
class ModelProgram final : public TrainModel {
 public:
  /** @param step  compute time of a whole step, divided among its operations */
  ModelProgram(LoopWork& work, const Workload& workload, Nanoseconds step);

  void zero_gradients() override;
  std::unique_ptr<TableLookup> look_up(const SparseFeatures& features, Stream& stream) override;
  void forward(const InputTensors& input, TableLookup& lookup) override;
  void backward(TableLookup& lookup) override;
  void update_tables(TableLookup& lookup, Stream& stream) override;
  void optimizer_step() override;
  void swap_gradients(Buffer& other) override;
  void abandon() noexcept override;

 private:
  struct Lookup;
  struct Layer {
    std::size_t output_bytes = 0, mask_bytes = 0;
    Buffer output, mask;
  };

  [[nodiscard]] Buffer allocate(std::size_t bytes) { return allocate(bytes, work_.streams.main); }
  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream) {
    return work_.allocate(bytes, stream, activations_tag_);
  }
  [[nodiscard]] Cost share(double weight) const;
  void plan_layers(const Workload& workload);
  void forward_layers();
  [[nodiscard]] Buffer backward_layers();

  LoopWork& work_;
  const Tag activations_tag_;
  const Nanoseconds step_;
  const std::size_t pooled_bytes_, interaction_bytes_, dense_bytes_;

  Buffer unweighted_tables_, weighted_tables_, parameters_, gradients_;
  Buffer interaction_, dense_, loss_;  ///< of the current step
  std::vector<Layer> layers_;
};

}  // namespace millrace::experiment
