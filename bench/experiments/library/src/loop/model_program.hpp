#pragma once

#include <memory>
#include <vector>

#include "loop/layer_gathers.hpp"
#include "loop/layer_offloads.hpp"
#include "loop/loop_work.hpp"
#include "millrace/pipeline/model/train_model.hpp"

namespace millrace::experiment {

/**
 * @brief The operations of a workload's step, without data: lookups, dense layers, and backward.
 *
 * A quarter of `workload.activations` are pooled embeddings, and a fifth is their interaction with
 * the dense features. The rest are layers that shrink towards the loss. Backward allocates each
 * gradient, and frees the kept activations in reverse order. docs/workloads.md describes the
 * additions of a workload: checkpoints, accumulated gradients, evaluation, sharded parameters.
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
  struct Layer : KeptLayer {
    std::size_t output_bytes = 0, mask_bytes = 0;
  };

  [[nodiscard]] Buffer allocate(std::size_t bytes) { return allocate(bytes, work_.streams.main); }
  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream) {
    return work_.allocate(bytes, stream, activations_tag_);
  }
  [[nodiscard]] Cost share(double weight) const;
  /** Scales a part of the activations to the batch of the current step. */
  [[nodiscard]] std::size_t scaled(std::size_t bytes) const;
  /** Whether forward keeps the output of this layer. */
  [[nodiscard]] bool is_kept(std::size_t layer) const;
  [[nodiscard]] const Buffer& input_of(std::size_t layer) const {
    return layer == 0 ? interaction_ : layers_[layer - 1].output;
  }
  void plan_layers(const Workload& workload);
  void compute_layer(std::size_t layer, const char* name);
  void forward_layers();
  /** Copies a layer to the host. Main must have computed it, and only the next layer reads its
   * output. */
  void offload(std::size_t layer);
  /** Makes main wait for an offloaded layer. */
  void bring_back(std::size_t layer);
  /** Recomputes the layers up to `last`, from the nearest output that forward kept. */
  void restore_layers(std::size_t last);
  [[nodiscard]] Buffer backward_layers();
  void evaluate();

  LoopWork& work_;
  const Workload& workload_;
  LayerGathers gathers_;
  LayerOffloads offloads_;
  const Tag activations_tag_;
  const Nanoseconds step_;
  const std::size_t pooled_bytes_, interaction_bytes_, dense_bytes_;

  Buffer unweighted_tables_, weighted_tables_, parameters_, gradients_, optimizer_state_;
  Buffer interaction_, dense_, loss_;  ///< for the current step
  std::vector<Layer> layers_;
  double layers_bytes_ = 0;  ///< sum of all outputs; it determines each layer's share of the time
  double scale_ = 1;         ///< factor of the activations for the current batch
  std::size_t batches_ = 0;  ///< batches trained so far
};

}  // namespace millrace::experiment
