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

#define cuda on_host
#include <cuda_runtime.h>

#include "model/cuda/linear.cu"
#undef cuda

namespace millrace::test::kernels {

using namespace model;

namespace {

// c = alpha a b + beta c for column-major matrices, as in BLAS.
int multiply_columns(void*, int transpose_a, int transpose_b, int m, int n, int k,
                     const float* alpha, const float* a, int stride_a, const float* b, int stride_b,
                     const float* beta, float* c, int stride_c) {
  for (int column = 0; column < n; ++column) {
    for (int row = 0; row < m; ++row) {
      float sum = 0;
      for (int i = 0; i < k; ++i) {
        sum += (transpose_a != 0 ? a[row * stride_a + i] : a[i * stride_a + row]) *
               (transpose_b != 0 ? b[i * stride_b + column] : b[column * stride_b + i]);
      }
      float& to = c[column * stride_c + row];
      to = *alpha * sum + (*beta == 0 ? 0 : *beta * to);
    }
  }
  return 0;
}

LinearShape draw_shape(std::mt19937_64& random) {
  return {1 + random() % 90, 1 + random() % 20, 1 + random() % 70, random() % 2 == 0};
}

}  // namespace
}  // namespace millrace::test::kernels

namespace millrace::model::on_host {
const BlasApi& BlasApi::get() {
  static const BlasApi api{.sgemm = test::kernels::multiply_columns};
  return api;
}
void check_blas(int status, const char*) { REQUIRE(status == 0); }
}  // namespace millrace::model::on_host

namespace millrace::test::kernels {

TEST_CASE("on 32 lanes a linear layer agrees with sequential code, forward and backward") {
  std::mt19937_64 random{seed()};
  draw_schedules(seed());
  const BlasHandle blas;
  const Queue queue{nullptr, &blas};
  for (int round = 0; round < 40; ++round) {
    const LinearShape shape = draw_shape(random);
    CAPTURE(round, shape.rows, shape.inputs, shape.outputs, shape.relu);
    const std::vector<float> x = draw_numbers(random, shape.rows * shape.inputs);
    const std::vector<float> weight = draw_numbers(random, shape.outputs * shape.inputs);
    const std::vector<float> bias = draw_numbers(random, shape.outputs);
    const std::vector<float> gradient = draw_numbers(random, shape.rows * shape.outputs);
    const auto forward = [&](std::vector<float>& output) {
      return LinearArguments<float>{.output = writes(output),
                                    .input = reads(x),
                                    .weight = reads(weight),
                                    .bias = reads(bias),
                                    .shape = shape};
    };
    std::vector<float> y(gradient.size()), y_there(gradient.size());
    host::linear(forward(y));
    on_host::linear(queue, forward(y_there));
    REQUIRE(y_there == y);

    const std::size_t asked = random() % 3 == 0 ? 0 : x.size();
    const std::vector<float> before = draw_numbers(random, weight.size());
    const auto backward = [&](auto&& linear_backward) {
      std::vector<float> of_x(asked), of_weight = before, of_bias = bias, of_y = gradient;
      linear_backward(LinearBackwardArguments<float>{.input_gradient = writes(of_x),
                                                     .weight_gradient = updates(of_weight),
                                                     .bias_gradient = updates(of_bias),
                                                     .output_gradient = updates(of_y),
                                                     .input = reads(x),
                                                     .weight = reads(weight),
                                                     .output = reads(y),
                                                     .shape = shape});
      return std::tuple{of_x, of_weight, of_bias, of_y};
    };
    REQUIRE(backward([&](const auto& all) { on_host::linear_backward(queue, all); }) ==
            backward([](const auto& all) { host::linear_backward(all); }));
  }
}

}  // namespace millrace::test::kernels
