#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

/** @brief A sparse feature and the distribution of its ids. */
struct SyntheticFeature {
  SparseFeature feature;
  double pooling = 1;            ///< ids per example: mean of a rounded normal distribution
  double pooling_deviation = 0;  ///< standard deviation of that distribution
  std::uint32_t fewest = 1;      ///< minimum ids per example
  double skew = 0;               ///< Zipf exponent of the ids; row 0 is most frequent; 0: uniform
};

/** @brief Sizes and distributions of a SyntheticSource. */
struct SyntheticSettings {
  std::size_t batch_size = 0;
  std::uint64_t examples = 0;  ///< examples per epoch; the last batch may be smaller
  std::size_t dense_features = 0;
  std::vector<SyntheticFeature> sparse, weighted;
  double pooling_variation = 0;  ///< relative deviation of a batch's mean pooling from `pooling`
  std::uint64_t seed = 0;
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;
  bool contents = true;  ///< false: batches of the same sizes with uninitialized contents
};

/**
 * @brief Random batches; each depends only on the seed and its number.
 *
 * The same settings and seed give the same bits on every machine. Every epoch has the same batches.
 * Dense features are approximately standard normal. Weights are in [0.5, 1.5). Labels depend on the
 * ids and some noise, so that a model can learn them.
 */
class SyntheticSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument for a batch size of 0, a negative mean or deviation, and other
   *          settings that make no sense */
  SyntheticSource(SyntheticSettings settings, const PinnedStaging& staging);
  ~SyntheticSource() override;

  [[nodiscard]] const InputSchema& schema() const override;
  [[nodiscard]] BatchPosition position() const override { return position_; }

 private:
  [[nodiscard]] std::optional<ModelInput> do_next() override;
  void do_seek(BatchPosition position) override { position_ = position; }

  class Drawer;
  std::unique_ptr<Drawer> drawer_;
  BatchPosition position_;
};

}  // namespace millrace
