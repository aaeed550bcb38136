#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "model/host/dense.hpp"
#include "model/host/embedding.hpp"
#include "model/host/position_weights.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

/// Compares every gradient with finite differences. The kernels are templates, so these tests run
/// them in double precision.

using namespace millrace;
using namespace millrace::model;

namespace {

using Numbers = std::vector<double>;

Numbers draw(std::size_t count) {
  static std::mt19937_64 random{test::seed()};
  Numbers numbers(count);
  for (double& number : numbers) number = std::uniform_real_distribution<double>{-1, 1}(random);
  return numbers;
}

/// The loss: a sum of all outputs, each times a drawn number. This number is the output's gradient.
class Weighed {
 public:
  explicit Weighed(std::size_t outputs) : gradient(draw(outputs)) {}
  [[nodiscard]] double sum(const Numbers& outputs) const {
    double total = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) total += gradient[i] * outputs[i];
    return total;
  }
  Numbers gradient;
};

void check_gradient(Numbers& of, const Numbers& found, const std::function<double()>& value) {
  REQUIRE(found.size() == of.size());
  constexpr double kStep = 1e-5;
  double worst = 0;
  for (std::size_t i = 0; i < of.size(); ++i) {
    const double at = of[i];
    of[i] = at + kStep;
    const double above = value();
    of[i] = at - kStep;
    const double below = value();
    of[i] = at;
    worst = std::max(worst, std::abs(found[i] - (above - below) / (2 * kStep)));
  }
  CHECK(worst < 1e-7);
}

}  // namespace

TEST_CASE("the gradients of a linear layer, with and without ReLU, pass finite differences") {
  for (const bool relu : {false, true}) {
    const LinearShape shape{5, 4, 3, relu};
    Numbers x = draw(20), weight = draw(12), bias = draw(3), y(15);
    const Weighed loss{15};
    const auto value = [&] {
      host::linear(LinearArguments<double>{.output = writes(y),
                                           .input = reads(x),
                                           .weight = reads(weight),
                                           .bias = reads(bias),
                                           .shape = shape});
      return loss.sum(y);
    };
    value();
    Numbers of_x(20), of_weight(12, 0.0), of_bias(3, 0.0), of_y = loss.gradient;
    host::linear_backward(LinearBackwardArguments<double>{.input_gradient = writes(of_x),
                                                          .weight_gradient = updates(of_weight),
                                                          .bias_gradient = updates(of_bias),
                                                          .output_gradient = updates(of_y),
                                                          .input = reads(x),
                                                          .weight = reads(weight),
                                                          .output = reads(y),
                                                          .shape = shape});
    check_gradient(x, of_x, value);
    check_gradient(weight, of_weight, value);
    check_gradient(bias, of_bias, value);
  }
}

TEST_CASE("gradients of parameters are added to the existing gradients") {
  const LinearShape shape{2, 2, 2, false};
  Numbers x = draw(4), weight = draw(4), of_y = draw(4);
  Numbers once(4, 0.0), onto(4, 7.0), bias_once(2, 0.0), bias_onto(2, 7.0);
  const auto add = [&](Numbers& of_weight, Numbers& of_bias) {
    host::linear_backward(LinearBackwardArguments<double>{.weight_gradient = updates(of_weight),
                                                          .bias_gradient = updates(of_bias),
                                                          .output_gradient = updates(of_y),
                                                          .input = reads(x),
                                                          .weight = reads(weight),
                                                          .shape = shape});
  };
  add(once, bias_once);
  add(onto, bias_onto);
  for (std::size_t i = 0; i < 4; ++i) CHECK(onto[i] == Approx(once[i] + 7));
  for (std::size_t i = 0; i < 2; ++i) CHECK(bias_onto[i] == Approx(bias_once[i] + 7));
}

TEST_CASE("the gradients of the dot interaction pass finite differences") {
  const DotShape shape{3, 4, 5};
  Numbers dense = draw(15), pooled = draw(60), out(3 * shape.columns());
  REQUIRE(shape.columns() == 5 + 10);
  const Weighed loss{out.size()};
  const auto value = [&] {
    host::dot_interaction(DotInteractionArguments<double>{
        .output = writes(out), .dense = reads(dense), .pooled = reads(pooled), .shape = shape});
    return loss.sum(out);
  };
  value();
  Numbers of_dense(15), of_pooled(60);
  host::dot_interaction_backward(
      DotInteractionBackwardArguments<double>{.dense_gradient = writes(of_dense),
                                              .pooled_gradient = writes(of_pooled),
                                              .output_gradient = reads(loss.gradient),
                                              .dense = reads(dense),
                                              .pooled = reads(pooled),
                                              .shape = shape});
  check_gradient(dense, of_dense, value);
  check_gradient(pooled, of_pooled, value);
}

TEST_CASE("the gradients of concatenation pass finite differences") {
  const ConcatShape shape{3, 2, 5};
  Numbers dense = draw(6), pooled = draw(15), out(21);
  const Weighed loss{21};
  const auto value = [&] {
    host::concatenate(ConcatenateArguments<double>{
        .output = writes(out), .dense = reads(dense), .pooled = reads(pooled), .shape = shape});
    return loss.sum(out);
  };
  Numbers of_dense(6), of_pooled(15);
  host::concatenate_backward(
      ConcatenateBackwardArguments<double>{.dense_gradient = writes(of_dense),
                                           .pooled_gradient = writes(of_pooled),
                                           .output_gradient = reads(loss.gradient),
                                           .shape = shape});
  check_gradient(dense, of_dense, value);
  check_gradient(pooled, of_pooled, value);
}

TEST_CASE("the gradient of the loss passes finite differences, and large logits stay finite") {
  Numbers logits = draw(9), labels(9), loss(1), of_logits(9);
  for (std::size_t i = 0; i < 9; ++i) labels[i] = static_cast<double>(i % 2);
  const auto value = [&] {
    host::binary_cross_entropy(BinaryCrossEntropyArguments<double>{.loss = writes(loss),
                                                                   .gradient = writes(of_logits),
                                                                   .logits = reads(logits),
                                                                   .labels = reads(labels)});
    return loss[0];
  };
  value();
  const Numbers found = of_logits;
  check_gradient(logits, found, value);

  logits = {1000, -1000, 1000, -1000};
  labels = {1, 0, 0, 1};
  of_logits.resize(4);
  CHECK(value() == Approx(500));
  CHECK(of_logits == Numbers{0, 0, 0.25, -0.25});
}

TEST_CASE("the gradients of embedding rows and of their factors pass finite differences") {
  // Two features on one table, one with sum and one with mean; duplicate ids and an empty bag.
  const std::vector<Lookup> lookups{{.rows = 4, .width = 3},
                                    {.rows = 4, .width = 3, .column = 3, .mean = 1}};
  const std::vector<std::int64_t> ids{1, 1, 3, 0, 2, 1, 1, 3};
  const std::vector<std::int32_t> offsets{0, 2, 4, 4, 7, 8, 8};
  const BagLayout<std::int32_t> bags{reads(lookups), reads(offsets), 3};
  Numbers weights = draw(12), factors = draw(ids.size()), pooled(18);
  const Weighed loss{18};
  std::vector<BadId> bad(1);
  const auto value = [&] {
    host::look_up(
        LookUpArguments<double, std::int64_t, std::int32_t>{.pooled = {writes(pooled), 6, 0},
                                                            .bad = updates(bad),
                                                            .tables = {.home = reads(weights)},
                                                            .bags = bags,
                                                            .ids = reads(ids),
                                                            .factors = reads(factors)});
    return loss.sum(pooled);
  };

  Numbers of_factors(ids.size());
  host::factor_gradients(FactorGradientsArguments<double, std::int64_t, std::int32_t>{
      .gradients = writes(of_factors),
      .pooled_gradient = {reads(loss.gradient), 6, 0},
      .tables = {.home = reads(weights)},
      .bags = bags,
      .ids = reads(ids)});
  check_gradient(factors, of_factors, value);

  // SGD with learning rate 1 subtracts exactly the gradient.
  const std::vector<std::uint32_t> positions{3, 0, 1, 5, 6, 4, 2, 7}, unique{0, 1, 2, 3};
  const std::vector<std::uint32_t> bag_of{0, 0, 1, 1, 3, 3, 3, 4}, starts{0, 1, 5, 6, 8}, count{4};
  Numbers updated = weights;
  host::update_rows(UpdateRowsArguments<double, std::uint32_t, std::int32_t>{
      .tables = {.home = {.weights = updates(updated)}},
      .gradient = {reads(loss.gradient), 6, 0},
      .bags = bags,
      .factors = reads(factors),
      .sorted = {.rows = reads(unique),
                 .starts = reads(starts),
                 .count = reads(count),
                 .positions = reads(positions),
                 .bag_of = reads(bag_of)},
      .rule = {.kind = OptimizerKind::sgd, .learning_rate = 1}});
  Numbers gradient(12);
  for (std::size_t i = 0; i < 12; ++i) gradient[i] = weights[i] - updated[i];
  check_gradient(weights, gradient, value);
}

TEST_CASE("a part of a bag uses the positions that its ids have in the whole bag") {
  const std::vector<std::int64_t> starts{0, 3}, places{0};
  const std::vector<std::int32_t> whole_offsets{0, 5}, part_offsets{0, 3};
  const std::vector<float> positions{0, 2, 4};  // ids 1 and 3 are on other ranks
  const BagPositions<std::int32_t> of_whole{.starts = reads(starts),
                                            .places = reads(places),
                                            .offsets = reads(whole_offsets),
                                            .shape = {1, 1, 3}};
  BagPositions<std::int32_t> of_part = of_whole;
  of_part.offsets = reads(part_offsets);
  of_part.positions = reads(positions);
  const Numbers weights = draw(3), gradients = draw(3);
  Numbers whole(5), part(3), of_weights(3, 0.0);
  using Forward = PositionFactorsArguments<double, std::int32_t>;
  host::position_factors(Forward{writes(whole), reads(weights), of_whole});
  host::position_factors(Forward{writes(part), reads(weights), of_part});
  CHECK(part == Numbers{whole[0], whole[2], whole[4]});
  host::position_factors_backward(PositionFactorsBackwardArguments<double, std::int32_t>{
      updates(of_weights), reads(gradients), of_part});
  CHECK(of_weights == Numbers{gradients[0], 0, gradients[1] + gradients[2]});
}

TEST_CASE("the gradients of position weights pass finite differences, also beyond the last one") {
  const std::vector<std::int64_t> starts{0, 2, 2, 5}, places{4, 0, 1};  // weight 0: no feature
  const std::vector<std::int32_t> offsets{0, 3, 3, 5, 6, 7, 10};
  const BagPositions<std::int32_t> bags{.starts = reads(starts),
                                        .places = reads(places),
                                        .offsets = reads(offsets),
                                        .shape = {3, 2, 5}};
  Numbers weights = draw(6), factors(10);
  const Weighed loss{10};
  const auto value = [&] {
    host::position_factors(
        PositionFactorsArguments<double, std::int32_t>{writes(factors), reads(weights), bags});
    return loss.sum(factors);
  };
  Numbers of_weights(6, 0.0);
  host::position_factors_backward(PositionFactorsBackwardArguments<double, std::int32_t>{
      updates(of_weights), reads(loss.gradient), bags});
  check_gradient(weights, of_weights, value);
  CHECK(factors[3] == 1);  // of a feature without position weights
  CHECK(factors[2] == factors[1]);
  CHECK(factors[0] == weights[4]);
  CHECK(of_weights[0] == 0);
}
