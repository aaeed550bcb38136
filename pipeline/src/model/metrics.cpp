#include "millrace/pipeline/model/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace millrace {
namespace {

struct Scored {
  float score;
  bool positive;
};

void check_sizes(std::size_t scores, std::size_t labels) {
  if (scores == labels) return;
  throw std::invalid_argument{fmt::format("{} scores for {} labels", scores, labels)};
}

}  // namespace

double area_under_curve(std::span<const float> scores, std::span<const float> labels) {
  check_sizes(scores.size(), labels.size());
  constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
  std::vector<Scored> order;
  order.reserve(scores.size());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) return kUndefined;
    order.push_back({scores[i], labels[i] > 0.5F});
  }
  std::sort(order.begin(), order.end(),
            [](const Scored& a, const Scored& b) { return a.score < b.score; });

  std::uint64_t positives = 0, negatives = 0, half_pairs = 0;
  for (std::size_t i = 0; i < order.size();) {
    std::uint64_t tied_positives = 0, tied_negatives = 0;
    const float score = order[i].score;
    for (; i < order.size() && order[i].score == score; ++i) {
      (order[i].positive ? tied_positives : tied_negatives) += 1;
    }
    // A pair of a positive and a lower negative counts as 1, one with the same score as 1/2. The
    // sum stays whole, so it is exact.
    half_pairs += tied_positives * (2 * negatives + tied_negatives);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  if (positives == 0 || negatives == 0) return kUndefined;
  return static_cast<double>(half_pairs) / 2 / static_cast<double>(positives) /
         static_cast<double>(negatives);
}

double mean_log_loss(std::span<const float> logits, std::span<const float> labels) {
  check_sizes(logits.size(), labels.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double x = logits[i];
    // log(1 + exp(x)) - x * label, in the form that does not overflow for large |x|.
    sum += std::max(x, 0.0) - x * labels[i] + std::log1p(std::exp(-std::abs(x)));
  }
  return logits.empty() ? 0 : sum / static_cast<double>(logits.size());
}

}  // namespace millrace
