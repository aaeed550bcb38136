#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

#include "millrace/pipeline/schedule/workload.hpp"

namespace millrace {
namespace {

using Random = std::mt19937_64;

/** Lengths by 65536 equally likely quantiles of a rounded normal distribution, at least 1. */
class LengthTable {
 public:
  LengthTable(double average, double deviation) {
    if (deviation <= 0) {
      lengths_.fill(at_least_one(average));
      return;
    }
    std::uint32_t length = 1;
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      const double quantile = (static_cast<double>(i) + 0.5) / static_cast<double>(lengths_.size());
      while (below(length + 0.5, average, deviation) < quantile) ++length;
      lengths_[i] = length;
    }
  }

  /** The sum of `count` lengths. */
  [[nodiscard]] std::size_t sum(std::size_t count, Random& random) const {
    std::size_t total = 0;
    for (; count >= 4; count -= 4) {
      const std::uint64_t bits = random();
      total += lengths_[bits & 0xffff] + lengths_[bits >> 16 & 0xffff] +
               lengths_[bits >> 32 & 0xffff] + lengths_[bits >> 48];
    }
    for (std::uint64_t bits = random(); count > 0; --count, bits >>= 16) {
      total += lengths_[bits & 0xffff];
    }
    return total;
  }

 private:
  static std::uint32_t at_least_one(double length) {
    return static_cast<std::uint32_t>(std::max(1.0, std::round(length)));
  }
  static double below(double length, double average, double deviation) {
    return 0.5 * std::erfc((average - length) / (deviation * std::numbers::sqrt2));
  }

  std::array<std::uint32_t, 65536> lengths_;
};

// Box and Muller's; std::normal_distribution differs between libraries.
double standard_normal(Random& random) {
  const double scale = 1.0 / 18446744073709551616.0;
  const double radius = (static_cast<double>(random()) + 1) * scale;
  const double angle = static_cast<double>(random()) * scale;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

// Beyond three deviations a batch would be an outlier that no average run has.
double draw_average(const Workload& workload, Random& random) {
  const double shift = std::clamp(standard_normal(random), -3.0, 3.0);
  return workload.feature_pooling_avg * (1 + workload.feature_pooling_variation * shift);
}

}  // namespace

std::vector<std::size_t> BatchSizes::tensors() const {
  return {float_features,  unweighted_values, unweighted_lengths,
          weighted_values, weighted_lengths,  weights,
          labels};
}

std::size_t BatchSizes::total() const {
  return float_features + unweighted_values + unweighted_lengths + weighted_values +
         weighted_lengths + weights + labels;
}

std::vector<BatchSizes> draw_batches(const Workload& workload, std::size_t count,
                                     std::uint64_t seed) {
  const std::size_t samples = workload.batch_size;
  const std::size_t unweighted =
      samples * (workload.num_unweighted_features + workload.additional_tables.size());
  const std::size_t weighted = samples * workload.num_weighted_features;

  Random random{seed};
  std::vector<BatchSizes> batches(count);
  for (BatchSizes& batch : batches) {
    const LengthTable table{draw_average(workload, random), workload.feature_pooling_std};
    const std::size_t unweighted_ids = table.sum(unweighted, random);
    const std::size_t weighted_ids = table.sum(weighted, random);
    batch.float_features = samples * workload.num_float_features * sizeof(float);
    batch.unweighted_values = unweighted_ids * sizeof(std::int64_t);
    batch.unweighted_lengths = unweighted * sizeof(std::int64_t);
    batch.weighted_values = weighted_ids * sizeof(std::int64_t);
    batch.weighted_lengths = weighted * sizeof(std::int64_t);
    batch.weights = weighted_ids * sizeof(float);
    batch.labels = samples * sizeof(float);
  }
  return batches;
}

}  // namespace millrace
