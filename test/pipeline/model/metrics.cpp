#include "millrace/pipeline/model/metrics.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// AUC by its definition: the share of pairs that are in order; a tie counts half.
double pairs_in_order(const std::vector<float>& scores, const std::vector<float>& labels) {
  double won = 0, pairs = 0;
  for (std::size_t p = 0; p < scores.size(); ++p) {
    for (std::size_t n = 0; n < scores.size(); ++n) {
      if (labels[p] < 0.5F || labels[n] > 0.5F) continue;
      ++pairs;
      won += scores[p] > scores[n] ? 1 : scores[p] == scores[n] ? 0.5 : 0;
    }
  }
  return won / pairs;
}

}  // namespace

TEST_CASE("the area under the curve is the share of pairs in order, ties counting half") {
  std::mt19937_64 random{seed()};
  for (int round = 0; round < 50; ++round) {
    const std::size_t levels = 1 + random() % 12;
    std::vector<float> scores, labels;
    for (std::size_t i = 0; i < 60; ++i) {
      scores.push_back(static_cast<float>(random() % levels) - 3);
      labels.push_back(random() % 3 == 0 ? 1.0F : 0.0F);
    }
    labels[0] = 1;
    labels[1] = 0;
    CHECK(std::abs(area_under_curve(scores, labels) - pairs_in_order(scores, labels)) < 1e-12);
  }
}

TEST_CASE("the area under the curve is 1, 0 and 0.5 for right, wrong and equal scores") {
  const std::vector<float> labels{0, 0, 1, 1, 1};
  CHECK(area_under_curve(std::vector<float>{1, 2, 3, 4, 5}, labels) == 1);
  CHECK(area_under_curve(std::vector<float>{5, 4, 3, 2, 1}, labels) == 0);
  CHECK(area_under_curve(std::vector<float>{7, 7, 7, 7, 7}, labels) == 0.5);
}

TEST_CASE("the area is NaN without both kinds of labels or with a NaN score") {
  CHECK(std::isnan(area_under_curve({}, {})));
  CHECK(std::isnan(area_under_curve(std::vector<float>{1, 2}, std::vector<float>{1, 1})));
  CHECK(
      std::isnan(area_under_curve(std::vector<float>{1, std::nanf("")}, std::vector<float>{1, 0})));
  CHECK_THROWS_AS(area_under_curve(std::vector<float>{1}, {}), std::invalid_argument);
}

TEST_CASE("the mean log loss agrees with its definition, and is finite for large logits") {
  const std::vector<float> logits{0.5F, -2, 1}, labels{1, 0, 0};
  double expected = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(logits[i])));
    expected -= std::log(labels[i] > 0 ? p : 1 - p) / 3;
  }
  CHECK(std::abs(mean_log_loss(logits, labels) - expected) < 1e-12);
  CHECK(mean_log_loss(std::vector<float>{500, -500}, std::vector<float>{0, 1}) == 500);
  CHECK(mean_log_loss({}, {}) == 0);
}
