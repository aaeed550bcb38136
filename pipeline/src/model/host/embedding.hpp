#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/host/vector.hpp"
#include "model/lookup.hpp"
#include "model/optimizer_rule.hpp"

/// @file
/// Host kernels of the embeddings. Reductions run in the order of the batch's values.

namespace millrace::model::host {

/** @brief The ids of a batch: F x B bags, key-major. */
template <typename T, typename Id, typename Offset>
struct Bags {
  std::span<const Id> ids;
  std::span<const Offset> offsets;
  std::span<const T> factors;  ///< of each id; empty: 1

  [[nodiscard]] std::size_t begin(std::size_t bag) const {
    return static_cast<std::size_t>(offsets[bag]);
  }
  [[nodiscard]] T factor(std::size_t position) const {
    return factors.empty() ? T{1} : factors[position];
  }
};

template <typename Id>
[[nodiscard]] bool in_range(const Lookup& lookup, Id id) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) <
         static_cast<std::uint64_t>(lookup.rows);
}

/** @brief What the gradients of a bag's ids are multiplied by, beside their factors. */
template <typename T>
[[nodiscard]] T bag_scale(const Lookup& lookup, std::size_t length) {
  return lookup.mean != 0 && length != 0 ? T{1} / static_cast<T>(length) : T{1};
}

/** @brief Pools the rows of every bag; ids out of range count as rows of zeros, and are told. */
template <typename T, typename Id, typename Offset>
void look_up(std::span<T> pooled, std::span<BadId> bad, std::span<const T> weights,
             std::span<const Lookup> lookups, std::span<const Id> ids,
             std::span<const Offset> offsets, std::span<const T> factors, PooledShape shape) {
  const Bags<T, Id, Offset> bags{ids, offsets, factors};
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    const Lookup lookup = lookups[f];
    const auto width = static_cast<std::size_t>(lookup.width);
    T* out = pooled.data() + shape.column + static_cast<std::size_t>(lookup.column);
    std::size_t end = bags.begin(f * shape.batch);
    for (std::size_t b = 0; b < shape.batch; ++b, out += shape.stride) {
      const std::size_t begin = end;
      end = bags.begin(f * shape.batch + b + 1);
      set_zero(out, width);
      for (std::size_t i = begin; i < end; ++i) {
        if (!in_range(lookup, ids[i])) [[unlikely]] {
          if (bad[0].lookup == BadId::kNone) bad[0] = {i, f, static_cast<std::int64_t>(ids[i])};
          continue;
        }
        const T* row =
            weights.data() + lookup.weights + static_cast<std::int64_t>(ids[i]) * lookup.width;
        if (factors.empty()) {
          add(out, row, width);
        } else {
          add_scaled(out, row, factors[i], width);
        }
      }
      if (lookup.mean != 0 && end - begin > 1) {
        const T scale = bag_scale<T>(lookup, end - begin);
        for_lanes(width, [&](std::size_t d) { out[d] *= scale; });
      }
    }
  }
}

/** @brief Of each value: its row among those of all tables, `none` if out of range; its bag. */
template <typename Key, typename Id, typename Offset>
void linearise(std::span<Key> rows, std::span<std::uint32_t> positions,
               std::span<std::uint32_t> bag_of, std::span<const Lookup> lookups,
               std::span<const Id> ids, std::span<const Offset> offsets, std::size_t batch,
               Key none) {
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    const Lookup lookup = lookups[f];
    for (std::size_t bag = f * batch; bag < (f + 1) * batch; ++bag) {
      const auto end = static_cast<std::size_t>(offsets[bag + 1]);
      for (auto i = static_cast<std::size_t>(offsets[bag]); i < end; ++i) {
        rows[i] = in_range(lookup, ids[i])
                      ? static_cast<Key>(lookup.first_row + static_cast<std::int64_t>(ids[i]))
                      : none;
        positions[i] = static_cast<std::uint32_t>(i);
        bag_of[i] = static_cast<std::uint32_t>(bag);
      }
    }
  }
}

/** @brief Run-length encoding of sorted rows, less those that are `none`: where each run begins. */
template <typename Key>
void find_runs(std::span<Key> unique, std::span<std::uint32_t> starts,
               std::span<std::uint32_t> count, std::span<std::byte> /*scratch*/,
               std::span<const Key> sorted, Key none) {
  std::uint32_t runs = 0;
  std::size_t i = 0;
  while (i < sorted.size() && sorted[i] != none) {
    unique[runs] = sorted[i];
    starts[runs++] = static_cast<std::uint32_t>(i);
    const Key row = sorted[i];
    while (i < sorted.size() && sorted[i] == row) ++i;
  }
  starts[runs] = static_cast<std::uint32_t>(i);
  count[0] = runs;
}

/** @brief What is known of the lookups that are sorted by row. */
template <typename T, typename Offset>
struct SortedLookups {
  std::span<const Lookup> lookups;
  std::span<const Offset> offsets;
  std::span<const T> factors;
  std::span<const std::uint32_t> positions, bag_of;
};

/** @brief The gradients of a run's lookups, added up in its order. */
template <typename T, typename Offset>
class RunSum {
 public:
  RunSum(const SortedLookups<T, Offset>& sorted, std::span<const T> gradient, PooledShape shape)
      : sorted_(sorted), gradient_(gradient), shape_(shape) {
    std::int32_t widest = 0;
    for (const Lookup& lookup : sorted.lookups) widest = std::max(widest, lookup.width);
    sum_.resize(static_cast<std::size_t>(widest));
  }

  [[nodiscard]] T* data() { return sum_.data(); }

  /** @return a lookup of the run's table */
  const Lookup& add_up(std::size_t begin, std::size_t end) {
    enter_feature(sorted_.bag_of[sorted_.positions[begin]]);
    const Lookup& of_table = *lookup_;
    const auto width = static_cast<std::size_t>(of_table.width);
    set_zero(sum_.data(), width);
    for (std::size_t j = begin; j < end; ++j) {
      const std::uint32_t position = sorted_.positions[j];
      const std::size_t bag = sorted_.bag_of[position];
      if (bag < first_bag_ || bag - first_bag_ >= shape_.batch) enter_feature(bag);
      const T* row = gradient_.data() + (bag - first_bag_) * shape_.stride + shape_.column +
                     static_cast<std::size_t>(lookup_->column);
      if (lookup_->mean == 0 && sorted_.factors.empty()) {
        add(sum_.data(), row, width);
      } else {
        const auto length =
            static_cast<std::size_t>(sorted_.offsets[bag + 1] - sorted_.offsets[bag]);
        const T factor = sorted_.factors.empty() ? T{1} : sorted_.factors[position];
        add_scaled(sum_.data(), row, factor * bag_scale<T>(*lookup_, length), width);
      }
    }
    return of_table;
  }

 private:
  void enter_feature(std::size_t bag) {
    const std::size_t feature = bag / shape_.batch;
    lookup_ = &sorted_.lookups[feature];
    first_bag_ = feature * shape_.batch;
  }

  const SortedLookups<T, Offset>& sorted_;
  std::span<const T> gradient_;
  PooledShape shape_;
  std::vector<T> sum_;
  const Lookup* lookup_ = nullptr;
  std::size_t first_bag_ = 0;
};

/** @brief Where a row's parameters are: those of element-wise state lie as the weights do. */
template <OptimizerKind kind, typename T>
void follow_row(const Rule<T>& rule, const T* __restrict gradient, std::size_t width,
                T* __restrict weights, T* __restrict m, T* __restrict v) {
  if constexpr (kind == OptimizerKind::rowwise_adagrad) {
    const T squares = dot(gradient, gradient, width);
    const T rate = rowwise_rate(rule, squares, static_cast<T>(width), *m);
    for_lanes(width, [&](std::size_t d) { weights[d] -= rate * gradient[d]; });
  } else {
    for_lanes(width,
              [&](std::size_t d) { follow<kind>(rule, gradient[d], weights[d], m + d, v + d); });
  }
}

/** @brief Applies the optimizer once to each row of `unique`, with its run's summed gradient. */
template <OptimizerKind kind, typename T, typename Key, typename Offset>
void update_rows(std::span<T> weights, std::span<T> m, std::span<T> v, std::span<const T> gradient,
                 std::span<const Lookup> lookups, std::span<const Offset> offsets,
                 std::span<const T> factors, std::span<const std::uint32_t> positions,
                 std::span<const std::uint32_t> bag_of, std::span<const Key> unique,
                 std::span<const std::uint32_t> starts, std::span<const std::uint32_t> count,
                 PooledShape shape, Rule<T> rule) {
  const SortedLookups<T, Offset> sorted{lookups, offsets, factors, positions, bag_of};
  RunSum<T, Offset> sum{sorted, gradient, shape};
  for (std::uint32_t run = 0; run < count[0]; ++run) {
    const Lookup& lookup = sum.add_up(starts[run], starts[run + 1]);
    const std::int64_t row = static_cast<std::int64_t>(unique[run]);
    const std::int64_t at = lookup.weights + (row - lookup.first_row) * lookup.width;
    const std::int64_t state_at = state_of_row(kind) != 0 ? row : at;
    const bool has_m = !m.empty();
    const bool has_v = !v.empty();
    follow_row<kind>(rule, sum.data(), static_cast<std::size_t>(lookup.width), weights.data() + at,
                     has_m ? m.data() + state_at : nullptr, has_v ? v.data() + state_at : nullptr);
  }
}

/** @brief Of each value: the gradient of its factor. 0 for ids out of range. */
template <typename T, typename Id, typename Offset>
void factor_gradients(std::span<T> out, std::span<const T> gradient, std::span<const T> weights,
                      std::span<const Lookup> lookups, std::span<const Id> ids,
                      std::span<const Offset> offsets, PooledShape shape) {
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    const Lookup lookup = lookups[f];
    const T* of_bag = gradient.data() + shape.column + static_cast<std::size_t>(lookup.column);
    for (std::size_t b = 0; b < shape.batch; ++b, of_bag += shape.stride) {
      const std::size_t bag = f * shape.batch + b;
      const auto begin = static_cast<std::size_t>(offsets[bag]);
      const auto end = static_cast<std::size_t>(offsets[bag + 1]);
      const T scale = bag_scale<T>(lookup, end - begin);
      for (std::size_t i = begin; i < end; ++i) {
        T sum = 0;
        if (in_range(lookup, ids[i])) {
          const T* row =
              weights.data() + lookup.weights + static_cast<std::int64_t>(ids[i]) * lookup.width;
          sum = dot(of_bag, row, static_cast<std::size_t>(lookup.width));
        }
        out[i] = scale * sum;
      }
    }
  }
}

}  // namespace millrace::model::host
