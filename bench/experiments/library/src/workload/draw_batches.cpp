#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "millrace/experiment/workload.hpp"

namespace millrace::experiment {
namespace {

using Random = std::mt19937_64;

/** 65,536 equally likely quantiles of a rounded normal distribution. Each length is at least 1. */
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

  [[nodiscard]] std::uint32_t operator[](std::uint64_t bits) const {
    return lengths_[bits & 0xffff];
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

/** Draws a sequence of lengths, four per random number. */
class Lengths {
 public:
  Lengths(const LengthTable& table, Random& random)
      : table_(table), random_(random), bits_(random()) {}

  std::size_t sum(std::size_t count) {
    std::size_t total = 0;
    for (std::size_t i = 0; i < count; ++i) {
      total += table_[bits_];
      bits_ >>= 16;
      if (++used_ < 4) continue;
      bits_ = random_();
      used_ = 0;
    }
    return total;
  }

 private:
  const LengthTable& table_;
  Random& random_;
  std::uint64_t bits_;
  unsigned used_ = 0;
};

// Box and Muller's method, because std::normal_distribution differs between standard libraries.
double standard_normal(Random& random) {
  const double scale = 1.0 / 18446744073709551616.0;
  const double radius = (static_cast<double>(random()) + 1) * scale;
  const double angle = static_cast<double>(random()) * scale;
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

// A batch beyond three deviations would be an outlier that a typical run does not have.
double draw_average(const Workload& workload, Random& random) {
  const double shift = std::clamp(standard_normal(random), -3.0, 3.0);
  return workload.feature_pooling_avg * (1 + workload.feature_pooling_variation * shift);
}

/** Draws a sequence of batches. */
class BatchDraw {
 public:
  BatchDraw(const Workload& workload, std::uint64_t seed)
      : workload_(workload),
        random_(seed),
        unweighted_(
            keys("u", workload.num_unweighted_features, "t", workload.additional_tables.size())),
        weighted_(keys("w", workload.num_weighted_features, "", 0)) {}

  InputShape next() {
    const LengthTable table{draw_average(workload_, random_), workload_.feature_pooling_std};
    InputShape shape;
    shape.batch_size = workload_.batch_size;
    shape.dense_features = workload_.float32_features();
    shape.sparse = layout(unweighted_, table, false);
    shape.weighted = layout(weighted_, table, true);
    return shape;
  }

 private:
  static Keys keys(const char* name, std::size_t count, const char* more, std::size_t more_count) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < count; ++i) names.push_back(fmt::format("{}{}", name, i));
    for (std::size_t i = 0; i < more_count; ++i) names.push_back(fmt::format("{}{}", more, i));
    return make_keys(std::move(names));
  }

  [[nodiscard]] JaggedLayout layout(const Keys& keys, const LengthTable& table, bool weighted) {
    JaggedLayout layout;
    layout.keys = keys;
    layout.batch_size = workload_.batch_size;
    layout.weighted = weighted;
    layout.value_type = IndexType::int64;
    layout.length_type = IndexType::int64;
    Lengths lengths{table, random_};
    for (std::size_t i = 0; i < keys->size(); ++i) {
      layout.counts.push_back(lengths.sum(workload_.batch_size));
    }
    return layout;
  }

  const Workload& workload_;
  Random random_;
  const Keys unweighted_, weighted_;
};

}  // namespace

std::vector<InputShape> draw_batches(const Workload& workload, std::size_t count,
                                     std::uint64_t seed) {
  BatchDraw draw{workload, seed};
  std::vector<InputShape> batches;
  for (std::size_t i = 0; i < count; ++i) batches.push_back(draw.next());
  return batches;
}

bool same_batches(const Workload& a, const Workload& b) {
  const auto drawn_from = [](const Workload& w) {
    return std::tuple{w.batch_size,
                      w.float32_features(),
                      w.num_unweighted_features,
                      w.additional_tables.size(),
                      w.num_weighted_features,
                      w.feature_pooling_avg,
                      w.feature_pooling_std,
                      w.feature_pooling_variation};
  };
  return drawn_from(a) == drawn_from(b);
}

}  // namespace millrace::experiment
