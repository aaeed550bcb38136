#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "millrace/pipeline/model/table_cache.hpp"
#include "model/host/dense.hpp"
#include "model/lookup.hpp"
#include "model/row_places.hpp"
#include "test/kernels/drawn.hpp"
#include "test/support/catch.hpp"
#include "test/support/seed.hpp"

// Compiles the CUDA kernels for the host, in the namespace on_host, and compares their bits with
// those of the host kernels.
#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/interaction.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

constexpr float kUntouched = 7.25F;

DotShape draw_shape(std::mt19937_64& random, int round) {
  if (round == 0) return {on_host::kMostBlocks + 2, 1, 1};
  if (round % 8 == 1) return {1 + random() % 2, 128 + random() % 20, 1 + random() % 9};
  return {1 + random() % 8, random() % 30,
          random() % 2 == 0 ? 4 * (1 + random() % 40) : 1 + random() % 300};
}

void compare_dots(std::mt19937_64& random, const DotShape& shape) {
  const std::vector<float> dense = draw_numbers(random, shape.batch * shape.width);
  const std::vector<float> pooled =
      draw_numbers(random, shape.batch * shape.features * shape.width);
  const std::vector<float> gradient = draw_numbers(random, shape.batch * shape.columns());
  const auto forward = [&](auto&& dot_interaction) {
    std::vector<float> out(gradient.size(), kUntouched);
    dot_interaction(DotInteractionArguments<float>{
        .output = writes(out), .dense = reads(dense), .pooled = reads(pooled), .shape = shape});
    return out;
  };
  const auto backward = [&](auto&& dot_interaction_backward) {
    std::vector<float> of_dense(dense.size(), kUntouched), of_pooled(pooled.size(), kUntouched);
    dot_interaction_backward(
        DotInteractionBackwardArguments<float>{.dense_gradient = writes(of_dense),
                                               .pooled_gradient = writes(of_pooled),
                                               .output_gradient = reads(gradient),
                                               .dense = reads(dense),
                                               .pooled = reads(pooled),
                                               .shape = shape});
    return std::pair{of_dense, of_pooled};
  };
  CAPTURE(shape.batch, shape.features, shape.width);
  REQUIRE(forward([](const auto& all) { on_host::dot_interaction({}, all); }) ==
          forward([](const auto& all) { host::dot_interaction(all); }));
  REQUIRE(backward([](const auto& all) { on_host::dot_interaction_backward({}, all); }) ==
          backward([](const auto& all) { host::dot_interaction_backward(all); }));
}

}  // namespace

TEST_CASE("on 32 lanes the dot interaction agrees with sequential code") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 20; ++round) compare_dots(random, draw_shape(random, round));
}

TEST_CASE("on 32 lanes concatenation and its backward agree with sequential code") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  for (int round = 0; round < 20; ++round) {
    const ConcatShape shape{1 + random() % 50, 1 + random() % 40, random() % 300};
    const std::vector<float> dense = draw_numbers(random, shape.batch * shape.dense);
    const std::vector<float> pooled = draw_numbers(random, shape.batch * shape.pooled);
    const auto joined = [&](auto&& concatenate) {
      std::vector<float> out(dense.size() + pooled.size(), kUntouched);
      concatenate(ConcatenateArguments<float>{
          .output = writes(out), .dense = reads(dense), .pooled = reads(pooled), .shape = shape});
      return out;
    };
    const auto out = joined([](const auto& all) { host::concatenate(all); });
    REQUIRE(joined([](const auto& all) { on_host::concatenate({}, all); }) == out);
    std::vector<float> of_dense(dense.size(), kUntouched), of_pooled(pooled.size(), kUntouched);
    on_host::concatenate_backward({}, {.dense_gradient = writes(of_dense),
                                       .pooled_gradient = writes(of_pooled),
                                       .output_gradient = reads(out),
                                       .shape = shape});
    REQUIRE(of_dense == dense);
    REQUIRE(of_pooled == pooled);
  }
}

}  // namespace millrace::test::kernels
