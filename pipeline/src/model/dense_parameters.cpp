#include "millrace/pipeline/model/dense_parameters.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "millrace/pipeline/kernels/enqueue.hpp"
#include "millrace/round_up.hpp"
#include "model/cuda/kernels.hpp"
#include "model/dense_arguments.hpp"
#include "model/host/dense.hpp"
#include "model/host/initial.hpp"
#include "model/seed.hpp"
#include "model/shapes.hpp"

namespace millrace {

using namespace model;

namespace {

// In floats. Each parameter begins at a multiple of 64 bytes, as if it had its own memory.
constexpr std::size_t kAlignment = 16;

}  // namespace

DenseParameters::DenseParameters(ModelContext& context, const Optimizer& optimizer,
                                 std::uint64_t seed)
    : context_(context), optimizer_(optimizer), seed_(seed) {
  if (state_of_row(optimizer.kind) != 0) {
    throw std::invalid_argument(
        fmt::format("{} keeps state of rows, which dense parameters do not have: they take {}",
                    to_string(optimizer.kind), dense_optimizer_names("")));
  }
}

Parameter DenseParameters::add(Named named) {
  const Parameter parameter{size_, named.parameter.size};
  size_ += round_up(parameter.size, kAlignment);
  named.parameter = parameter;
  named_.push_back(std::move(named));
  return parameter;
}

Parameter DenseParameters::add_uniform(std::string name, std::size_t size, float bound) {
  return add({std::move(name), {0, size}, bound, 0});
}

Parameter DenseParameters::add_constant(std::string name, std::size_t size, float value) {
  return add({std::move(name), {0, size}, 0, value});
}

void DenseParameters::create() {
  Stream& main = context_.main();
  Allocator& memory = context_.allocator();
  const auto& tags = context_.tags();
  const std::size_t state = state_of_parameter(optimizer_.kind);
  values_ = {memory, size_, main, tags.parameters};
  gradients_ = {memory, size_, main, tags.parameters};
  first_moment_ = {memory, state > 0 ? size_ : 0, main, tags.optimizer_state};
  second_moment_ = {memory, state > 1 ? size_ : 0, main, tags.optimizer_state};
  // Also fills the gaps between parameters, which the optimizer's step and reductions read.
  for (const Array<float>* array : {&values_, &gradients_, &first_moment_, &second_moment_}) {
    if (array->size() == 0) continue;
    context_.device().fill(array->data(), 0, array->size() * sizeof(float), main.handle());
  }
  for (const Named& named : named_) {
    const std::size_t size = named.parameter.size;
    const Declared declared{.name = "initialize", .bytes = kScalar * static_cast<double>(size)};
    const auto to = writes(values(named.parameter), size);
    if (named.bound > 0) {
      enqueue<host::fill_uniform<float>, cuda::fill_uniform>(
          context_, main, declared, to, stream_of_draws(seed_, named.name), named.bound);
    } else {
      enqueue<host::fill<float>, cuda::fill>(context_, main, declared, to, named.value);
    }
  }
}

void DenseParameters::zero_gradients(StreamRef stream) {
  if (size_ == 0) return;
  context_.device().fill(gradients_.data(), 0, size_ * sizeof(float), stream.handle());
}

double DenseParameters::step_bytes() const {
  // Reads the gradient, and reads and writes the parameter and each moment.
  const double passes = 3 + 2 * static_cast<double>(state_of_parameter(optimizer_.kind));
  return passes * kScalar * static_cast<double>(size_);
}

void DenseParameters::step(StreamRef stream) {
  if (size_ == 0) return;
  ++steps_;
  if (optimizer_.kind == OptimizerKind::none) return;
  const Declared declared{
      .name = "step", .flops = 4 * static_cast<double>(size_), .bytes = step_bytes()};
  enqueue<host::step<float>, cuda::step>(
      context_, stream, declared,
      StepArguments<float>{.parameters = updates(values_),
                           .first_moment = updates(first_moment_),
                           .second_moment = updates(second_moment_),
                           .gradients = reads(gradients_),
                           .rule = rule_of<float>(optimizer_, steps_)});
}

// For semi-sync, which keeps the gradients of one batch while the next batch computes its own.
void DenseParameters::swap_gradients(Buffer& other) {
  if (size_ == 0) return;
  if (!other) {
    other = {context_.allocator(), size_ * sizeof(float), context_.main(),
             context_.tags().parameters};
  }
  std::swap(other, gradients_.buffer());
}

std::vector<StateTensor> DenseParameters::tensors_in(float* array,
                                                     const std::string& prefix) const {
  std::vector<StateTensor> tensors;
  for (const Named& named : named_) {
    tensors.push_back({prefix + named.name, array + named.parameter.offset, named.parameter.size});
  }
  return tensors;
}

Array<float> DenseParameters::copy_values(StreamRef stream) const {
  Array<float> copy{context_.allocator(), size_, stream, context_.tags().parameters};
  context_.device().copy(copy.data(), values_.data(), size_ * sizeof(float),
                         CopyKind::device_to_device, stream.handle());
  return copy;
}

void DenseParameters::set_values(const Array<float>& from, StreamRef stream) {
  context_.device().copy(values_.data(), from.data(), size_ * sizeof(float),
                         CopyKind::device_to_device, stream.handle());
}

void DenseParameters::add_state(ModelState& state) {
  for (const Named& named : named_) {
    const auto add = [&](const char* suffix, const Array<float>& array) {
      if (array.size() == 0) return;
      state.tensors.push_back(
          {named.name + suffix, array.data() + named.parameter.offset, named.parameter.size});
    };
    add("", values_);
    add(".m", first_moment_);
    add(".v", second_moment_);
  }
  state.counters.push_back({"dense.steps", &steps_});
}

}  // namespace millrace
