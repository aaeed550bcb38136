#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "millrace/device/virtual_machine.hpp"
#include "millrace/memory/caching_allocator.hpp"
#include "millrace/pipeline/model/sparse_nn.hpp"

/// The host kernels, called through the virtual device, beside handwritten loops with the same
/// arithmetic. The batch has 256 examples and 14 features, with row-wise Adagrad. Row width and ids
/// per bag vary.

namespace {

using namespace millrace;

constexpr std::size_t kBatch = 256, kFeatures = 14, kRows = 100;
constexpr std::size_t kWidth = 8, kColumns = kFeatures * kWidth;  // of whole steps
constexpr float kRate = 0.02F, kEpsilon = 1e-8F;

std::vector<std::string> names() {
  std::vector<std::string> names;
  for (std::size_t f = 0; f < kFeatures; ++f) names.push_back(fmt::format("f{}", f));
  return names;
}

std::vector<TableConfig> tables(std::size_t width) {
  std::vector<TableConfig> tables;
  for (const std::string& name : names())
    tables.push_back({name, kRows, width, Pooling::sum, {name}});
  return tables;
}

struct Inputs {
  /// @param bag  ids per bag
  Inputs(std::size_t width, std::size_t bag) : lengths(kBatch * kFeatures, static_cast<int>(bag)) {
    std::mt19937 random{1};
    for (std::size_t i = 0; i < lengths.size() * bag; ++i) ids.push_back(random() % kRows);
    for (std::size_t i = 0; i <= lengths.size(); ++i) {
      offsets.push_back(static_cast<std::int32_t>(i * bag));
    }
    for (std::size_t i = 0; i < kBatch * kFeatures * width; ++i) {
      gradient.push_back(static_cast<float>(random() % 200) / 1e5F - 1e-3F);
    }
  }
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> lengths, offsets;
  std::vector<float> gradient;
};

struct Setting {
  VirtualMachine machine;
  VirtualDevice& device = machine.add_device();
  OrderedDevice ordered{device};
  Stream main{ordered};
  DeviceSource source{device};
  CachingAllocator allocator{ordered, source, Policy::millrace()};
  ModelContext context{allocator, main};

  template <typename T>
  BatchTensor upload(const std::vector<T>& values) {
    BatchTensor tensor{allocator, values.size() * sizeof(T), main};
    device.copy(tensor.data(), values.data(), tensor.bytes(), CopyKind::host_to_device,
                main.handle());
    return tensor;
  }
  KeyedJaggedTensor upload(const Inputs& inputs) {
    const JaggedLayout layout{
        .keys = make_keys(names()),
        .batch_size = kBatch,
        .counts = std::vector<std::size_t>(kFeatures, inputs.ids.size() / kFeatures)};
    return {layout, {upload(inputs.ids), upload(inputs.lengths), upload(inputs.offsets), {}}};
  }
};

template <std::size_t width, std::size_t bag>
void bags_model(benchmark::State& state) {
  constexpr std::size_t columns = kFeatures * width;
  const Inputs inputs{width, bag};
  Setting setting;
  EmbeddingBags bags{setting.context,
                     tables(width),
                     {.optimizer = {OptimizerKind::rowwise_adagrad, kRate, kEpsilon}}};
  const KeyedJaggedTensor batch = setting.upload(inputs);
  const BatchTensor gradient = setting.upload(inputs.gradient);
  const Array<float> pooled{setting.allocator, kBatch * columns, setting.main};
  for (auto _ : state) {
    bags.look_up(batch, nullptr, {pooled.data(), columns, 0}, setting.main);
    bags.update(batch, nullptr, {gradient.as<float>().data(), columns, 0}, setting.main);
    setting.main.synchronize();
  }
  state.SetItemsProcessed(state.iterations());
}

/// Handwritten lookup and update. Each makes one pass per feature. Gradients of rows are summed in
/// an array as large as the tables, without sorting. The row width and the number of ids per bag
/// are known at compile time.
template <std::size_t width, std::size_t bag>
class BagsByHand {
 public:
  explicit BagsByHand(const Inputs& inputs) : inputs_(inputs) {}

  void look_up(std::vector<float>& pooled) const {
    for (std::size_t f = 0; f < kFeatures; ++f) {
      for (std::size_t b = 0; b < kBatch; ++b) {
        float sum[width] = {};
        for (std::size_t i = 0; i < bag; ++i) {
          const float* const row = &weights_[row_of(f, b, i) * width];
          for (std::size_t d = 0; d < width; ++d) sum[d] += row[d];
        }
        float* const to = &pooled[b * kFeatures * width + f * width];
        for (std::size_t d = 0; d < width; ++d) to[d] = sum[d];
      }
    }
  }
  void update(const std::vector<float>& gradient) {
    for (std::size_t f = 0; f < kFeatures; ++f) {
      for (std::size_t b = 0; b < kBatch; ++b) {
        const float* const from = &gradient[b * kFeatures * width + f * width];
        for (std::size_t i = 0; i < bag; ++i) {
          const std::size_t row = row_of(f, b, i);
          float* const sum = &sums_[row * width];
          if (!is_touched_[row]) {
            is_touched_[row] = 1;
            touched_.push_back(row);
            for (std::size_t d = 0; d < width; ++d) sum[d] = 0;
          }
          for (std::size_t d = 0; d < width; ++d) sum[d] += from[d];
        }
      }
    }
    for (const std::size_t row : touched_) update(row);
    touched_.clear();
  }

 private:
  [[nodiscard]] std::size_t row_of(std::size_t f, std::size_t b, std::size_t i) const {
    return f * kRows + static_cast<std::size_t>(inputs_.ids[(f * kBatch + b) * bag + i]);
  }
  void update(std::size_t row) {
    float* const weights = &weights_[row * width];
    const float* const sum = &sums_[row * width];
    float squares = 0;
    for (std::size_t d = 0; d < width; ++d) squares += sum[d] * sum[d];
    m_[row] += squares / width;
    const float rate = kRate / (std::sqrt(m_[row]) + kEpsilon);
    for (std::size_t d = 0; d < width; ++d) weights[d] -= rate * sum[d];
    is_touched_[row] = 0;
  }

  const Inputs& inputs_;
  std::vector<float> weights_ = std::vector<float>(kFeatures * kRows * width, 0.01F);
  std::vector<float> m_ = std::vector<float>(kFeatures * kRows), sums_ = weights_;
  std::vector<char> is_touched_ = std::vector<char>(kFeatures * kRows);
  std::vector<std::size_t> touched_;
};

template <std::size_t width, std::size_t bag>
void bags_by_hand(benchmark::State& state) {
  const Inputs inputs{width, bag};
  BagsByHand<width, bag> bags{inputs};
  std::vector<float> pooled(kBatch * kFeatures * width);
  for (auto _ : state) {
    bags.look_up(pooled);
    benchmark::DoNotOptimize(pooled.data());
    bags.update(inputs.gradient);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(bags_model<8, 1>);
BENCHMARK(bags_by_hand<8, 1>);
BENCHMARK(bags_model<10, 1>);
BENCHMARK(bags_by_hand<10, 1>);
BENCHMARK(bags_model<64, 1>);
BENCHMARK(bags_by_hand<64, 1>);
BENCHMARK(bags_model<8, 10>);
BENCHMARK(bags_by_hand<8, 10>);
BENCHMARK(bags_model<32, 10>);
BENCHMARK(bags_by_hand<32, 10>);
BENCHMARK(bags_model<128, 10>);
BENCHMARK(bags_by_hand<128, 10>);

// Whole steps: 6 dense features, layers of 32 and 8, 15 vectors of 8 and their 105 products, layers
// of 64, 32 and 1. Dense layers use Adam.

constexpr std::size_t kDense = 6, kVectors = kFeatures + 1;
constexpr std::size_t kInteracted = kWidth + kVectors * (kVectors - 1) / 2;

void step_model(benchmark::State& state) {
  const Inputs inputs{kWidth, 1};
  Setting setting;
  SparseNN model{setting.context,
                 {.dense_features = kDense,
                  .tables = tables(kWidth),
                  .dense_arch = {32, kWidth},
                  .over_arch = {64, 32},
                  .table_optimizer = {OptimizerKind::rowwise_adagrad, kRate, kEpsilon}}};
  const InputTensors input{.batch_size = kBatch,
                           .dense_features = kDense,
                           .dense = setting.upload(std::vector<float>(kBatch * kDense, 0.5F)),
                           .labels = setting.upload(std::vector<float>(kBatch, 1.0F)),
                           .sparse = setting.upload(inputs)};
  for (auto _ : state) {
    train_plainly(model, setting.main, input, {input.sparse, {}});
    setting.main.synchronize();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(step_model);

/// A linear layer with ReLU and Adam.
struct LayerByHand {
  LayerByHand(std::size_t inputs, std::size_t outputs)
      : in(inputs),
        out(outputs),
        w(in * out, 0.05F),
        dw(in * out),
        m(in * out),
        v(in * out),
        y(kBatch * out),
        dx(kBatch * in) {}

  void forward(const std::vector<float>& x) {
    std::fill(y.begin(), y.end(), 0.0F);
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t i = 0; i < in; ++i) {
        for (std::size_t o = 0; o < out; ++o) y[b * out + o] += x[b * in + i] * w[i * out + o];
      }
      for (std::size_t o = 0; o < out; ++o) y[b * out + o] = std::max(y[b * out + o], 0.0F);
    }
  }
  void backward(const std::vector<float>& x, std::vector<float>& dy) {
    std::fill(dw.begin(), dw.end(), 0.0F);
    for (std::size_t b = 0; b < kBatch; ++b) {
      for (std::size_t o = 0; o < out; ++o) {
        if (y[b * out + o] <= 0) dy[b * out + o] = 0;
      }
      for (std::size_t i = 0; i < in; ++i) {
        float sum = 0;
        for (std::size_t o = 0; o < out; ++o) {
          dw[i * out + o] += x[b * in + i] * dy[b * out + o];
          sum += w[i * out + o] * dy[b * out + o];
        }
        dx[b * in + i] = sum;
      }
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = 0.9F * m[i] + 0.1F * dw[i];
      v[i] = 0.999F * v[i] + 0.001F * dw[i] * dw[i];
      w[i] -= 1e-3F * m[i] / (std::sqrt(v[i]) + kEpsilon);
    }
  }

  std::size_t in, out;
  std::vector<float> w, dw, m, v, y, dx;
};

/** The i-th vector of an example: the dense vector is first, then those of the tables. */
float* vector_of(std::vector<float>& dense, std::vector<float>& others, std::size_t b,
                 std::size_t i) {
  return i == 0 ? &dense[b * kWidth] : &others[b * kColumns + (i - 1) * kWidth];
}

/** Computes the dense vector of each example, and the products of all pairs of vectors. */
void interact_by_hand(std::vector<float>& dense, std::vector<float>& pooled,
                      std::vector<float>& interacted) {
  for (std::size_t b = 0; b < kBatch; ++b) {
    float* to = std::copy_n(&dense[b * kWidth], kWidth, &interacted[b * kInteracted]);
    for (std::size_t i = 0; i < kVectors; ++i) {
      for (std::size_t j = i + 1; j < kVectors; ++j) {
        const float* const one = vector_of(dense, pooled, b, i);
        const float* const other = vector_of(dense, pooled, b, j);
        float sum = 0;
        for (std::size_t d = 0; d < kWidth; ++d) sum += one[d] * other[d];
        *to++ = sum;
      }
    }
  }
}

/** Computes the gradients of `interact_by_hand`. */
void interact_backward_by_hand(std::vector<float>& dense, std::vector<float>& pooled,
                               const std::vector<float>& dinteracted, std::vector<float>& ddense,
                               std::vector<float>& dpooled) {
  std::fill(dpooled.begin(), dpooled.end(), 0.0F);
  for (std::size_t b = 0; b < kBatch; ++b) {
    const float* from = &dinteracted[b * kInteracted];
    std::copy_n(from, kWidth, &ddense[b * kWidth]);
    from += kWidth;
    for (std::size_t i = 0; i < kVectors; ++i) {
      for (std::size_t j = i + 1; j < kVectors; ++j, ++from) {
        const float* const one = vector_of(dense, pooled, b, i);
        const float* const other = vector_of(dense, pooled, b, j);
        float* const done = vector_of(ddense, dpooled, b, i);
        float* const dother = vector_of(ddense, dpooled, b, j);
        for (std::size_t d = 0; d < kWidth; ++d) {
          done[d] += *from * other[d];
          dother[d] += *from * one[d];
        }
      }
    }
  }
}

void step_by_hand(benchmark::State& state) {
  const Inputs inputs{kWidth, 1};
  BagsByHand<kWidth, 1> bags{inputs};
  LayerByHand dense1{kDense, 32}, dense2{32, kWidth};
  LayerByHand over1{kInteracted, 64}, over2{64, 32}, over3{32, 1};
  const std::vector<float> x(kBatch * kDense, 0.5F);
  std::vector<float> pooled(kBatch * kColumns), dpooled(pooled.size());
  std::vector<float> interacted(kBatch * kInteracted), ddense(kBatch * kWidth), dlogits(kBatch);
  for (auto _ : state) {
    bags.look_up(pooled);
    dense1.forward(x);
    dense2.forward(dense1.y);
    interact_by_hand(dense2.y, pooled, interacted);
    over1.forward(interacted);
    over2.forward(over1.y);
    over3.forward(over2.y);
    for (std::size_t b = 0; b < kBatch; ++b) {
      dlogits[b] = (1 / (1 + std::exp(-over3.y[b])) - 1) / kBatch;
    }
    over3.backward(over2.y, dlogits);
    over2.backward(over1.y, over3.dx);
    over1.backward(interacted, over2.dx);
    interact_backward_by_hand(dense2.y, pooled, over1.dx, ddense, dpooled);
    dense2.backward(dense1.y, ddense);
    dense1.backward(x, dense2.dx);
    bags.update(dpooled);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(step_by_hand);

}  // namespace
