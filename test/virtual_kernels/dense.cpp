#include "model/host/dense.hpp"

#include <cuda_runtime.h>

#include <cmath>

#include "model/cuda/dense.cu"
#include "model/cuda/interaction.cu"
#include "model/cuda/linear.cu"
#include "model/host/initial.hpp"
#include "model/host/position_weights.hpp"
#include "test/virtual_kernels/rows.hpp"

namespace millrace::test::virtual_kernels {

using namespace model;
namespace code = model::cuda;
namespace host = model::host;

namespace {

void fill(float* out, std::size_t size, float value) { host::fill<float>({out, size}, value); }

void scale(float* values, std::size_t size, float factor) {
  host::scale<float>({values, size}, factor);
}

void fill_uniform(float* out, std::size_t size, std::uint64_t stream, float bound) {
  host::fill_uniform<float>({out, size}, stream, bound);
}

template <int size>
void add_bias(float* y, const float* bias, std::size_t words, std::size_t words_of_row, bool relu) {
  host::add_bias<float>({y, words * size}, {bias, words_of_row * size}, relu);
}

void dot(float* out, const code::Vectors& of) {
  const DotShape& shape = of.shape;
  host::dot_interaction(DotInteractionArguments<float>{
      .output = writes(out, shape.batch * shape.columns()),
      .dense = reads(of.dense, shape.batch * shape.width),
      .pooled = reads(of.pooled, shape.batch * shape.features * shape.width),
      .shape = shape});
}

}  // namespace

void add_rows_of_dense(std::vector<Row>& rows) {
  rows.push_back(twin<code::loss_kernel, host::binary_cross_entropy<float>>());
  rows.push_back(twin<code::fill_kernel, fill>());
  rows.push_back(twin<code::scale_kernel, scale>());
  rows.push_back(twin<code::fill_uniform_kernel, fill_uniform>());
  rows.push_back(twin<code::add_bias<1>, add_bias<1>>());
  rows.push_back(twin<code::add_bias<4>, add_bias<4>>());
  rows.push_back(twin<code::mask_and_add_up_kernel, host::mask_and_add_up<float>>());
  rows.push_back(twin<code::dot_kernel<1>, dot>());
  rows.push_back(twin<code::dot_kernel<4>, dot>());
  rows.push_back(twin<code::dot_backward_kernel<1>, host::dot_interaction_backward<float>>());
  rows.push_back(twin<code::dot_backward_kernel<4>, host::dot_interaction_backward<float>>());
  rows.push_back(twin<code::concatenate_kernel, host::concatenate<float>>());
  rows.push_back(twin<code::concatenate_backward_kernel, host::concatenate_backward<float>>());
  for (const OptimizerTraits& traits : kOptimizers) {
    with_optimizer(traits.kind, [&]<typename Optimizer>(Optimizer) {
      if constexpr (!Optimizer::by_row) {
        rows.push_back(twin<code::step_kernel<Optimizer>, host::step<float>>());
      }
    });
  }
  for_types<std::int32_t, std::int64_t>([&]<typename Offset>() {
    rows.push_back(twin<code::position_kernel<Offset>, host::position_factors<float, Offset>>());
    rows.push_back(twin<code::position_backward_kernel<Offset>,
                        host::position_factors_backward<float, Offset>>());
  });
}

}  // namespace millrace::test::virtual_kernels
