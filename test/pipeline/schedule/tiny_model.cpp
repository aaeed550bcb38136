#include "test/pipeline/schedule/tiny_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace millrace::test {
namespace {

constexpr float kRate = 0.05F;

View view(const Array<float>& array, Access access) {
  return {array.data(), array.size() * sizeof(float), access};
}
View reads(const BatchTensor& tensor) { return {tensor.data(), tensor.bytes(), Access::read}; }

/// A jagged tensor as a kernel sees it. Garbage in it causes no access out of bounds.
struct Jagged {
  std::span<const std::int64_t> values;
  std::span<const std::int32_t> offsets;
  std::span<const float> weights;

  Jagged(const KernelContext& memory, std::size_t first)
      : values(memory.as<const std::int64_t>(first)),
        offsets(memory.as<const std::int32_t>(first + 1)),
        weights(memory.as<const float>(first + 2)) {}

  template <typename Visit>
  void visit(std::size_t batch, Visit visit) const {
    const auto end_of = [&](std::size_t bag) {
      return std::min(static_cast<std::size_t>(static_cast<std::uint32_t>(offsets[bag])),
                      values.size());
    };
    for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
      for (std::size_t i = end_of(bag); i < end_of(bag + 1); ++i) {
        const auto row =
            static_cast<std::size_t>(static_cast<std::uint64_t>(values[i]) % TinyModel::kRows);
        visit(bag % batch, row, weights.empty() ? 1.0F : weights[i]);
      }
    }
  }
};

std::vector<View> views(const KeyedJaggedTensor& features) {
  return {reads(features.values()), reads(features.offsets()), reads(features.weights())};
}

}  // namespace

TinyModel::TinyModel(Allocator& memory, Stream& main)
    : memory_(memory),
      main_(main),
      table_(memory, kRows * kWidth, main),
      weighted_table_(memory, kRows * kWidth, main),
      linear_(memory, kInputs, main),
      linear_gradient_(memory, kInputs, main) {
  float next = 0.125F;
  for (const Array<float>* const array : {&table_, &weighted_table_, &linear_}) {
    launch({.name = "initialize",
            .views = {view(*array, Access::write)},
            .host = [next](const KernelContext& kernel) {
              float value = next;
              for (float& parameter : kernel.as<float>(0)) parameter = value = 0.9F - value * 1.1F;
            }});
    next += 0.0625F;
  }
}

void TinyModel::launch(Operation operation, const Stream& stream) {
  operation.cost.fixed = Nanoseconds{2000};
  main_.device().device().launch(std::move(operation), stream.handle());
}

void TinyModel::zero_gradients() {
  launch(
      {.name = "zero gradients",
       .views = {view(linear_gradient_, Access::write)},
       .host = [](const KernelContext& kernel) { std::ranges::fill(kernel.as<float>(0), 0.F); }});
}

struct TinyModel::Lookup final : TableLookup {
  Lookup(const SparseFeatures& of, Stream& on) : features(of), stream(on) {}

  SparseFeatures features;
  Stream& stream;
  std::size_t batch = 0;
  Array<float> sums, gradient;  // [batch x kColumns]
};

void TinyModel::look_up(const Lookup& lookup, const KeyedJaggedTensor& features,
                        const Array<float>& table, std::size_t column, const Stream& stream) {
  std::vector<View> all = views(features);
  all.push_back(view(table, Access::read));
  all.push_back(view(lookup.sums, Access::read_write));
  launch({.name = "look up",
          .views = std::move(all),
          .host =
              [batch = lookup.batch, column](const KernelContext& kernel) {
                const auto rows = kernel.as<const float>(3);
                const auto sums = kernel.as<float>(4);
                Jagged{kernel, 0}.visit(
                    batch, [&](std::size_t sample, std::size_t row, float weight) {
                      for (std::size_t i = 0; i < kWidth; ++i) {
                        sums[sample * kColumns + column + i] += weight * rows[row * kWidth + i];
                      }
                    });
              }},
         stream);
}

std::unique_ptr<TableLookup> TinyModel::look_up(const SparseFeatures& features, Stream& stream) {
  auto lookup = std::make_unique<Lookup>(features, stream);
  lookup->batch = features.unweighted.batch_size();
  if (lookup->batch == 0) return lookup;
  lookup->sums = {memory_, lookup->batch * kColumns, stream};
  launch({.name = "begin sums",
          .views = {view(lookup->sums, Access::write)},
          .host = [](const KernelContext& kernel) { std::ranges::fill(kernel.as<float>(0), 0.F); }},
         stream);
  look_up(*lookup, features.unweighted, table_, 0, stream);
  look_up(*lookup, features.weighted, weighted_table_, kWidth, stream);
  return lookup;
}

void TinyModel::forward(const InputTensors& input, TableLookup& of) {
  auto& lookup = static_cast<Lookup&>(of);
  const std::size_t batch = input.batch_size;
  if (batch == 0) return;
  if (lookup.stream.id() != main_.id()) lookup.sums.buffer().record_use(main_);
  inputs_ = {memory_, batch * kInputs, main_};
  launch(
      {.name = "take inputs",
       .views = {reads(input.dense), view(lookup.sums, Access::read), view(inputs_, Access::write)},
       .host = [batch](const KernelContext& kernel) {
         const auto dense = kernel.as<const float>(0);
         const auto sums = kernel.as<const float>(1);
         const auto inputs = kernel.as<float>(2);
         for (std::size_t sample = 0; sample < batch; ++sample) {
           const auto to = inputs.subspan(sample * kInputs);
           std::ranges::copy(sums.subspan(sample * kColumns, kColumns), to.begin());
           std::ranges::copy(dense.subspan(sample * kDense, kDense), to.begin() + kColumns);
         }
       }});

  errors_ = {memory_, batch, main_};
  launch({.name = "predict",
          .views = {view(inputs_, Access::read), view(linear_, Access::read), reads(input.labels),
                    view(errors_, Access::write)},
          .host = [](const KernelContext& kernel) {
            const auto inputs = kernel.as<const float>(0);
            const auto linear = kernel.as<const float>(1);
            const auto labels = kernel.as<const float>(2);
            const auto errors = kernel.as<float>(3);
            for (std::size_t sample = 0; sample < errors.size(); ++sample) {
              float sum = 0;
              for (std::size_t i = 0; i < kInputs; ++i) {
                sum += linear[i] * inputs[sample * kInputs + i];
              }
              errors[sample] = 1 / (1 + std::exp(-sum)) - labels[sample];
            }
          }});
}

void TinyModel::backward(TableLookup& of) {
  auto& lookup = static_cast<Lookup&>(of);
  if (lookup.batch == 0) return;
  lookup.gradient = {memory_, lookup.sums.size(), main_};
  launch({.name = "linear backward",
          .views = {view(inputs_, Access::read), view(errors_, Access::read),
                    view(linear_, Access::read), view(linear_gradient_, Access::read_write),
                    view(lookup.gradient, Access::write)},
          .host = [](const KernelContext& kernel) {
            const auto inputs = kernel.as<const float>(0);
            const auto errors = kernel.as<const float>(1);
            const auto linear = kernel.as<const float>(2);
            const auto gradient = kernel.as<float>(3);
            const auto of_sums = kernel.as<float>(4);
            for (std::size_t i = 0; i < inputs.size(); ++i) {
              gradient[i % kInputs] += errors[i / kInputs] * inputs[i];
            }
            for (std::size_t i = 0; i < of_sums.size(); ++i) {
              of_sums[i] = errors[i / kColumns] * linear[i % kColumns];
            }
          }});
  lookup.sums = {};
  abandon();
}

void TinyModel::update(const Lookup& lookup, const KeyedJaggedTensor& features,
                       const Array<float>& table, std::size_t column, const Stream& stream) {
  std::vector<View> all = views(features);
  all.push_back(view(lookup.gradient, Access::read));
  all.push_back(view(table, Access::read_write));
  launch({.name = "update",
          .views = std::move(all),
          .host =
              [batch = lookup.batch, column](const KernelContext& kernel) {
                const auto gradient = kernel.as<const float>(3);
                const auto rows = kernel.as<float>(4);
                Jagged{kernel, 0}.visit(
                    batch, [&](std::size_t sample, std::size_t row, float weight) {
                      for (std::size_t i = 0; i < kWidth; ++i) {
                        rows[row * kWidth + i] -=
                            kRate * gradient[sample * kColumns + column + i] * weight;
                      }
                    });
              }},
         stream);
}

void TinyModel::update_tables(TableLookup& of, Stream& stream) {
  auto& lookup = static_cast<Lookup&>(of);
  if (lookup.batch == 0) return;
  if (stream.id() != main_.id()) lookup.gradient.buffer().record_use(stream);
  update(lookup, lookup.features.unweighted, table_, 0, stream);
  update(lookup, lookup.features.weighted, weighted_table_, kWidth, stream);
  lookup.gradient = {};
  lookup.features = {};
}

void TinyModel::optimizer_step() {
  launch({.name = "optimizer",
          .views = {view(linear_, Access::read_write), view(linear_gradient_, Access::read)},
          .host = [](const KernelContext& kernel) {
            const auto linear = kernel.as<float>(0);
            const auto gradient = kernel.as<const float>(1);
            for (std::size_t i = 0; i < kInputs; ++i) linear[i] -= kRate * gradient[i];
          }});
}

void TinyModel::swap_gradients(Buffer& other) {
  if (!other) other = {memory_, kInputs * sizeof(float), main_};
  std::swap(other, linear_gradient_.buffer());
}

void TinyModel::abandon() noexcept {
  inputs_ = {};
  errors_ = {};
}

std::vector<float> TinyModel::parameters() {
  std::vector<float> all(2 * kRows * kWidth + kInputs);
  float* to = all.data();
  for (const Array<float>* const array : {&table_, &weighted_table_, &linear_}) {
    main_.device().device().copy(to, array->data(), array->size() * sizeof(float),
                                 CopyKind::device_to_host, main_.handle());
    to += array->size();
  }
  main_.synchronize();
  return all;
}

}  // namespace millrace::test
