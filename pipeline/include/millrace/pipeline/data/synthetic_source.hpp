#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/pipeline/data/epoch_source.hpp"

namespace millrace {

struct SyntheticFeature {
  SparseFeature feature;
  double pooling = 1;            ///< ids of an example: rounded normal with this average
  double pooling_deviation = 0;  ///< and standard deviation between examples
  std::uint32_t fewest = 1;      ///< but at least this many
  double skew = 0;               ///< Zipf's exponent of the ids, row 0 the hottest; 0: uniform
};

struct SyntheticSettings {
  std::size_t batch_size = 0;
  std::uint64_t examples = 0;  ///< of an epoch; the last batch has what is left
  std::size_t dense_features = 0;
  std::vector<SyntheticFeature> sparse, weighted;
  double pooling_variation = 0;  ///< deviation of a batch's poolings from the average, relative
  std::uint64_t seed = 0;
  IndexType value_type = IndexType::int64;
  IndexType length_type = IndexType::int32;
  bool contents = true;  ///< false: batches of the same sizes, in which nothing is written
};

/**
 * @brief Batches that are drawn; each follows from the seed and its number alone.
 *
 * Settings and seed give the same bits on any machine. Every epoch has the same batches. Dense
 * features are all but standard normal; weights lie in [0.5, 1.5). Labels follow from the ids and
 * some noise, so that there is something to learn.
 */
class SyntheticSource final : public EpochSource {
 public:
  /** @throws std::invalid_argument for a batch size of 0, an average or deviation below 0, ... */
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
