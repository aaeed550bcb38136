#include "model/host/dense.hpp"

#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "model/host/initial.hpp"
#include "model/host/position_weights.hpp"
#include "model/lookup.hpp"
#include "model/row_places.hpp"
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/dense.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

void compare_steps(std::mt19937_64& random, OptimizerKind kind) {
  struct Parameters {
    std::vector<float> values, first, second;
  };
  const std::size_t size = 4 * (random() % 1500);
  const auto state = [&](std::size_t number) {
    std::vector<float> drawn = draw_numbers(random, state_of_parameter(kind) > number ? size : 0);
    for (float& value : drawn) value = std::abs(value);
    return drawn;
  };
  Parameters here{draw_numbers(random, size), state(0), state(1)};
  Parameters there = here;
  const std::vector<float> gradients = draw_numbers(random, size);
  const Rule<float> rule =
      rule_of<float>({.kind = kind, .learning_rate = 0.05F, .epsilon = 1e-4F}, 1 + random() % 5);
  const auto arguments = [&](Parameters& of) {
    return StepArguments<float>{.parameters = updates(of.values),
                                .first_moment = updates(of.first),
                                .second_moment = updates(of.second),
                                .gradients = reads(gradients),
                                .rule = rule};
  };
  host::step(arguments(here));
  on_host::step({}, arguments(there));
  REQUIRE(worst_difference(there.values, here.values) < 1e-5);
  REQUIRE(worst_difference(there.first, here.first) < 1e-5);
  REQUIRE(worst_difference(there.second, here.second) < 1e-5);
}

/// Features of which some have position weights. These weights lie between others.
template <typename Offset>
struct Positions {
  explicit Positions(std::mt19937_64& random)
      : tables(draw_tables(random)),
        bags(draw_bags<std::int64_t, Offset>(random, tables, false)),
        shape{tables.lookups.size(), bags.batch} {
    std::int64_t place = 0;
    starts.push_back(0);
    for (std::size_t f = 0; f < shape.features; ++f) {
      const auto count = static_cast<std::int64_t>(f == 0 ? 1 + random() % 5 : random() % 5);
      place += static_cast<std::int64_t>(random() % 3);
      places.push_back(place);
      place += count;
      starts.push_back(starts.back() + count);
    }
    shape.weights = static_cast<std::size_t>(starts.back());
    weights = draw_numbers(random, static_cast<std::size_t>(place));
    if (random() % 2 == 0) {
      positions.resize(bags.ids.size());
      for (float& position : positions) position = static_cast<float>(random() % 9);
    }
  }
  [[nodiscard]] BagPositions<Offset> view() const {
    return {.starts = reads(starts),
            .places = reads(places),
            .offsets = reads(bags.offsets),
            .positions = reads(positions),
            .shape = shape};
  }
  DrawnTables tables;
  DrawnBags<std::int64_t, Offset> bags;
  PositionShape shape;
  std::vector<std::int64_t> starts, places;
  std::vector<float> weights, positions;
};

/// The result of a kernel that updates `to`, with arguments of this type.
template <typename Arguments, typename Offset>
std::vector<float> taken(const Positions<Offset>& by, std::vector<float> to,
                         const std::vector<float>& from, auto&& kernel) {
  kernel(Arguments{updates(to), reads(from), by.view()});
  return to;
}

}  // namespace

TEST_CASE("on 1024 threads the loss of logits agrees with sequential code") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 20; ++round) {
    const std::vector<float> logits = draw_numbers(random, 1 + random() % 5000);
    std::vector<float> labels(logits.size());
    for (float& label : labels) label = static_cast<float>(random() % 2);
    const auto lost = [&](auto&& binary_cross_entropy) {
      std::vector<float> loss(1), gradient(logits.size());
      binary_cross_entropy(BinaryCrossEntropyArguments<float>{.loss = writes(loss),
                                                              .gradient = writes(gradient),
                                                              .logits = reads(logits),
                                                              .labels = reads(labels)});
      return std::pair{loss, gradient};
    };
    const auto here = lost([](const auto& all) { host::binary_cross_entropy(all); });
    const auto there = lost([](const auto& all) { on_host::binary_cross_entropy({}, all); });
    REQUIRE(worst_difference(there.first, here.first) < 1e-5);
    REQUIRE(worst_difference(there.second, here.second) < 1e-5);
  }
}

TEST_CASE("on 32 lanes optimizer steps agree with sequential code") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 5; ++round) {
    for (const OptimizerTraits& optimizer : kOptimizers) {
      if (optimizer.kind == OptimizerKind::none || optimizer.state_of_row != 0) continue;
      CAPTURE(optimizer.name);
      compare_steps(random, optimizer.kind);
    }
  }
}

TEST_CASE("on 32 lanes fill, scale and fill_uniform agree with sequential code") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 8; ++round) {
    const std::size_t most = on_host::kMostBlocks * on_host::kThreads;
    const std::size_t size = round == 0 ? most + random() % 5000 : random() % 5000;
    const float value = draw_numbers(random, 1)[0];
    const std::uint64_t stream = random();
    std::vector<float> here(size), there(size);
    host::fill_uniform<float>(here, stream, 0.37F);
    on_host::fill_uniform({}, there, stream, 0.37F);
    REQUIRE(there == here);
    if (round == 0) continue;
    host::scale<float>(here, value);
    on_host::scale({}, there, value);
    REQUIRE(there == here);
    on_host::fill({}, there, value);
    REQUIRE(there == std::vector<float>(size, value));
  }
}

TEMPLATE_TEST_CASE("on 32 lanes position factors and gradients agree with sequential code", "",
                   std::int32_t, std::int64_t) {
  using Offset = TestType;
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 12; ++round) {
    const Positions<Offset> by{random};
    CAPTURE(round, by.shape.features, by.shape.batch, by.bags.ids.size());
    const std::vector<float> factors(by.bags.ids.size(), 7.25F);
    using Forward = PositionFactorsArguments<float, Offset>;
    using Backward = PositionFactorsBackwardArguments<float, Offset>;
    REQUIRE(taken<Forward>(by, factors, by.weights, [](const auto& all) {
              on_host::position_factors({}, all);
            }) == taken<Forward>(by, factors, by.weights, [](const auto& all) {
              host::position_factors(all);
            }));
    const std::vector<float> gradients = draw_numbers(random, by.bags.ids.size());
    const std::vector<float> before = draw_numbers(random, by.weights.size());
    REQUIRE(taken<Backward>(by, before, gradients, [](const auto& all) {
              on_host::position_factors_backward({}, all);
            }) == taken<Backward>(by, before, gradients, [](const auto& all) {
              host::position_factors_backward(all);
            }));
  }
}

}  // namespace millrace::test::kernels
