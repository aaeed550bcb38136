#include <fmt/format.h>

#include <cstdint>

#include "gpu/kernels/measure.hpp"
#include "model/cuda/kernels.hpp"
#include "model/cuda/linear_bias.hpp"

/// The dense kernels for a batch of 8,192 examples. Each cycles through four inputs. Bytes: every
/// input read once and every output written once.

namespace millrace::bench {
namespace {

namespace kernels = model::cuda;
using model::DotShape;
using model::LinearShape;
using model::reads;
using model::updates;
using model::writes;

constexpr std::size_t kDenseBatch = 8192, kFeatures = 26;
constexpr std::size_t kInputs = 4;

/// One array per input.
class Arrays {
 public:
  explicit Arrays(std::size_t size) : size_(size), all_(size * kInputs) { fill_with_numbers(all_); }

  [[nodiscard]] std::span<float> of(std::size_t launch) const {
    return all_.all().subspan(launch % kInputs * size_, size_);
  }
  [[nodiscard]] double bytes() const { return 4.0 * static_cast<double>(size_); }

 private:
  std::size_t size_;
  DeviceArray<float> all_;
};

void dot_interaction(benchmark::State& state, std::size_t width, bool backward) {
  const DotShape shape{kDenseBatch, kFeatures, width};
  const Arrays out{kDenseBatch * shape.columns()}, dense{kDenseBatch * width},
      pooled{kDenseBatch * kFeatures * width};
  const double forward_bytes = out.bytes() + dense.bytes() + pooled.bytes();
  if (!backward) {
    return measure(state, {forward_bytes, [&](Queue queue, std::size_t i) {
                             kernels::dot_interaction(queue, model::DotInteractionArguments<float>{
                                                                 .output = writes(out.of(i)),
                                                                 .dense = reads(dense.of(i)),
                                                                 .pooled = reads(pooled.of(i)),
                                                                 .shape = shape});
                           }});
  }
  const Arrays of_dense{kDenseBatch * width}, of_pooled{kDenseBatch * kFeatures * width};
  measure(state,
          {forward_bytes + of_dense.bytes() + of_pooled.bytes(), [&](Queue queue, std::size_t i) {
             kernels::dot_interaction_backward(queue,
                                               model::DotInteractionBackwardArguments<float>{
                                                   .dense_gradient = writes(of_dense.of(i)),
                                                   .pooled_gradient = writes(of_pooled.of(i)),
                                                   .output_gradient = reads(out.of(i)),
                                                   .dense = reads(dense.of(i)),
                                                   .pooled = reads(pooled.of(i)),
                                                   .shape = shape});
           }});
}

// Half of the output is positive. Only the other half of its gradient is written, as zeros.
void mask_and_add_up(benchmark::State& state, std::size_t outputs) {
  const LinearShape shape{.rows = kDenseBatch, .outputs = outputs, .relu = true};
  const Arrays gradient{kDenseBatch * outputs}, output{kDenseBatch * outputs}, of_bias{outputs};
  measure(state, {2.5 * gradient.bytes() + 2 * of_bias.bytes(), [&](Queue queue, std::size_t i) {
                    kernels::mask_and_add_up(queue, model::LinearBackwardArguments<float>{
                                                        .bias_gradient = updates(of_bias.of(i)),
                                                        .output_gradient = updates(gradient.of(i)),
                                                        .output = reads(output.of(i)),
                                                        .shape = shape});
                  }});
}

}  // namespace

void register_dense() {
  for (const std::size_t width : {64U, 128U}) {
    for (const bool backward : {false, true}) {
      register_kernel(fmt::format("dot_interaction{}/features:{}/width:{}",
                                  backward ? "_backward" : "", kFeatures, width),
                      [=](benchmark::State& state) { dot_interaction(state, width, backward); });
    }
  }
  for (const std::size_t outputs : {64U, 512U, 1024U}) {
    register_kernel(fmt::format("linear_mask_and_add_up/outputs:{}", outputs),
                    [=](benchmark::State& state) { mask_and_add_up(state, outputs); });
  }
}

}  // namespace millrace::bench
