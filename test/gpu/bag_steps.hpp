#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "millrace/pipeline/model/embedding_bags.hpp"
#include "test/support/model_bench.hpp"
#include "test/support/seed.hpp"

namespace millrace::test {

/// Tables with widths below a word, of odd words, and above what a warp takes at once. The last one
/// has one hot row.
[[nodiscard]] inline std::vector<TableConfig> tables() {
  return {{"narrow", 50, 3, Pooling::sum, {"a", "b"}},
          {"usual", 2000, 64, Pooling::mean, {"c", "d"}},
          {"wide", 30, 260, Pooling::sum, {"e"}},
          {"one", 1, 8, Pooling::mean, {"f"}}};
}
inline const std::vector<std::size_t> kRows{50, 50, 2000, 2000, 30, 1};
inline constexpr std::size_t kBatch = 300;

/// Whether sums of gradients may round. Exact sums are the same in every order: their terms are
/// multiples of 2^-9 (a gradient of 1/16, a factor of 1/8, a bag of 1, 2 or 4 ids) and the sums are
/// below 2^13, so 24 bits hold them.
enum class Sums { rounded, exact };

inline constexpr std::size_t kLongestBag = 6;

[[nodiscard]] HostBags draw_batch(std::mt19937_64& random, const std::vector<std::string>& features,
                                  std::size_t examples, bool weighted, Sums sums);
[[nodiscard]] std::vector<float> draw_gradient(std::mt19937_64& random, std::size_t size,
                                               Sums sums);

/// Runs steps of embedding bags and keeps all results.
template <typename Bench>
class BagSteps final : RowUpdateObserver {
 public:
  BagSteps(Bench& bench, const Optimizer& optimizer, std::optional<TableCache> cache = {})
      : bench_(bench),
        bags(bench.context, tables(), {.optimizer = optimizer, .observer = this, .cache = cache}) {}

  /// @param after_step  called before the first step and after each step
  void run(
      bool weighted, int steps, std::size_t examples = kBatch, Sums sums = Sums::rounded,
      const std::function<void()>& after_step = [] {}) {
    std::mt19937_64 random{seed()};
    after_step();
    for (int i = 0; i < steps; ++i) {
      const HostBags batch = draw_batch(random, bags.features(), examples, weighted, sums);
      step(batch, draw_gradient(random, examples * bags.columns(), sums));
      after_step();
    }
    cached = cached_rows();
    weights = bench_.memory.download(state());
  }

  [[nodiscard]] ModelState state() {
    ModelState state;
    bags.add_state(state, "");
    return state;
  }

  /// Returns the rows in the cache, before they are written back.
  [[nodiscard]] std::vector<std::int64_t> cached_rows() {
    std::vector<std::int64_t> rows = bags.cached_rows(bench_.main);
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  std::vector<float> pooled, factor_gradients, weights;
  std::vector<std::int32_t> rows;
  std::vector<std::int64_t> cached;

 private:
  void step(const HostBags& host, const std::vector<float>& host_gradient) {
    const KeyedJaggedTensor batch = bench_.memory.upload(host);
    const BatchTensor gradient = bench_.memory.upload(host_gradient);
    const PooledMatrix pooled_gradient{gradient.template as<float>().data(), bags.columns(), 0};
    Array<float> out{bench_.allocator, host_gradient.size(), bench_.main};
    const HeldRows held = bags.prefetch(batch, bench_.main);
    bags.look_up(batch, nullptr, {out.data(), bags.columns(), 0}, bench_.main);
    append(pooled, out);
    out = {bench_.allocator, host.value_count(), bench_.main};
    bags.factor_gradients(batch, pooled_gradient, out.data(), bench_.main);
    append(factor_gradients, out);
    bags.update(batch, nullptr, pooled_gradient, bench_.main);
  }
  void append(std::vector<float>& to, const Array<float>& from) {
    const auto values = bench_.memory.download(static_cast<const float*>(from.data()), from.size());
    to.insert(to.end(), values.begin(), values.end());
  }
  void rows_updated(const RowUpdate& update) override {
    const std::uint32_t count = bench_.memory.download(update.count, 1)[0];
    const auto observed =
        bench_.memory.download(static_cast<const std::int32_t*>(update.rows), count);
    rows.insert(rows.end(), observed.begin(), observed.end());
  }

  Bench& bench_;

 public:
  EmbeddingBags bags;
};

}  // namespace millrace::test
