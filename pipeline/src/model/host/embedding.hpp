#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/host/vector.hpp"
#include "model/lookup.hpp"
#include "model/optimizer_rule.hpp"
#include "model/row_places.hpp"

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

/** @brief The weights of a table's rows, where a batch finds them. */
template <typename T>
struct TableRows {
  const T* weights;           ///< of the table
  const T* cached;            ///< at slots
  const std::int32_t* slots;  ///< of each id; null: the table is not cached
  std::size_t stride;         ///< from slot to slot

  [[nodiscard]] const T* row(std::size_t position, std::size_t at) const {
    if (slots == nullptr || slots[position] < 0) return weights + at;
    return cached + static_cast<std::size_t>(slots[position]) * stride;
  }
};

/** @brief Pools the rows of a feature's bags; ids out of range count as zeros. The first is told.
 */
template <typename T, typename Id, typename Offset, typename Width>
void look_up_feature(T* out, BadId& bad, const TableRows<T>& rows, std::span<const Lookup> lookups,
                     std::size_t f, const Bags<T, Id, Offset>& bags, PooledShape shape,
                     Width width) {
  const Lookup lookup = lookups[f];
  std::size_t end = bags.begin(f * shape.batch);
  for (std::size_t b = 0; b < shape.batch; ++b, out += shape.stride) {
    const std::size_t begin = end;
    end = bags.begin(f * shape.batch + b + 1);
    VectorSum<T, Width> sum{out, width};
    for (std::size_t i = begin; i < end; ++i) {
      const Id id = bags.ids[i];
      if (!in_range(lookup, id)) [[unlikely]] {
        if (bad.lookup == BadId::kNone) bad = {i, f, static_cast<std::int64_t>(id)};
        continue;
      }
      const T* row = rows.row(i, static_cast<std::size_t>(id) * width);
      if (bags.factors.empty()) {
        sum.add(row);
      } else {
        sum.add_scaled(row, bags.factors[i]);
      }
    }
    if (lookup.mean != 0 && end - begin > 1) sum.scale(bag_scale<T>(lookup, end - begin));
    sum.store();
  }
}

/** @brief Pools the rows of every bag; ids out of range count as rows of zeros, and are told. */
template <typename T, typename Id, typename Offset>
void look_up(std::span<T> pooled, std::span<BadId> bad, std::span<const T> weights,
             std::span<const T> cached, std::span<const std::int32_t> slots,
             std::span<const Lookup> lookups, std::span<const Id> ids,
             std::span<const Offset> offsets, std::span<const T> factors, PooledShape shape,
             std::size_t slot_stride) {
  const Bags<T, Id, Offset> bags{ids, offsets, factors};
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    T* const out = pooled.data() + shape.column + static_cast<std::size_t>(lookups[f].column);
    const TableRows<T> table{weights.data() + lookups[f].weights, cached.data(),
                             slots.empty() ? nullptr : slots.data(), slot_stride};
    with_length(static_cast<std::size_t>(lookups[f].width), [&](auto width) {
      look_up_feature(out, bad[0], table, lookups, f, bags, shape, width);
    });
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

[[nodiscard]] inline std::size_t widest(std::span<const Lookup> lookups) {
  std::int32_t widest = 0;
  for (const Lookup& lookup : lookups) widest = std::max(widest, lookup.width);
  return static_cast<std::size_t>(widest);
}

/** @brief What is known of the lookups that are sorted by row. */
template <typename T, typename Offset>
struct SortedLookups {
  std::span<const Lookup> lookups;
  std::span<const Offset> offsets;
  std::span<const T> factors;
  std::span<const std::uint32_t> positions, bag_of;
};

/** @brief Adds up the gradients of runs of lookups, each in its order. */
template <typename T, typename Offset>
class RunSum {
 public:
  RunSum(const SortedLookups<T, Offset>& sorted, std::span<const T> gradient, PooledShape shape)
      : sorted_(sorted), gradient_(gradient), shape_(shape) {}

  /** @brief The table of a run's row, by its first lookup. */
  const Lookup& enter(std::size_t begin) {
    const std::uint32_t bag = sorted_.bag_of[sorted_.positions[begin]];
    if (!inside(bag)) enter_feature(bag);
    return *lookup_;
  }

  template <typename Sum>
  [[gnu::always_inline]] void add_up(Sum& sum, std::size_t begin, std::size_t end) {
    for (std::size_t j = begin; j < end; ++j) {
      const std::uint32_t position = sorted_.positions[j];
      const std::size_t bag = sorted_.bag_of[position];
      if (!inside(bag)) [[unlikely]]
        enter_feature(bag);
      const T* row = gradient_.data() + (bag - first_bag_) * shape_.stride + column_;
      if (plain_) {
        sum.add(row);
      } else {
        const auto length =
            static_cast<std::size_t>(sorted_.offsets[bag + 1] - sorted_.offsets[bag]);
        const T factor = sorted_.factors.empty() ? T{1} : sorted_.factors[position];
        sum.add_scaled(row, factor * bag_scale<T>(*lookup_, length));
      }
    }
  }

 private:
  [[nodiscard]] bool inside(std::size_t bag) const { return bag - first_bag_ < bags_; }
  void enter_feature(std::size_t bag) {
    const std::size_t feature = bag / shape_.batch;
    lookup_ = &sorted_.lookups[feature];
    first_bag_ = feature * shape_.batch;
    bags_ = shape_.batch;
    column_ = shape_.column + static_cast<std::size_t>(lookup_->column);
    plain_ = lookup_->mean == 0 && sorted_.factors.empty();
  }

  const SortedLookups<T, Offset>& sorted_;
  std::span<const T> gradient_;
  PooledShape shape_;
  const Lookup* lookup_ = nullptr;
  std::size_t first_bag_ = 0, bags_ = 0, column_ = 0;
  bool plain_ = false;
};

/** @brief Where a row's parameters are: those of element-wise state lie as the weights do. */
template <OptimizerKind kind, typename T, typename Width>
[[gnu::always_inline]] inline void follow_row(const Rule<T>& rule, const T* __restrict gradient,
                                              Width width, T* __restrict weights, T* __restrict m,
                                              T* __restrict v) {
  if constexpr (kind == OptimizerKind::rowwise_adagrad) {
    const T squares = dot(gradient, gradient, width);
    const T rate = rowwise_rate(rule, squares, static_cast<T>(std::size_t{width}), *m);
    for_lanes(width, [&](std::size_t d) { weights[d] -= rate * gradient[d]; });
  } else {
    for_lanes(width,
              [&](std::size_t d) { follow<kind>(rule, gradient[d], weights[d], m + d, v + d); });
  }
}

/** @brief All that lies by row, or by parameter of rows. */
template <typename T>
struct RowMemory {
  T* weights;
  T* m;  ///< null: there is none
  T* v;

  [[nodiscard]] RowMemory at(RowPlace place) const {
    return {weights + place.weights, m == nullptr ? m : m + place.m,
            v == nullptr ? v : v + place.weights};
  }
};

/** @brief Where the rows of an update are: at home, or at slots if they are cached. */
template <typename T>
struct UpdatedRows {
  RowMemory<T> home, cached;
  SlotState* states;
  const std::int32_t* slots;  ///< of each run; null: tables are not cached
  RowLayout layout;

  /** @brief To be changed. */
  [[nodiscard]] RowMemory<T> row(std::uint32_t run, const Lookup& table, std::int64_t row) const {
    if (slots == nullptr || slots[run] < 0) return home.at(layout.at_home(table, row));
    const auto slot = static_cast<std::size_t>(slots[run]);
    states[slot].dirty = 1;
    return cached.at(layout.at_slot(slot));
  }
};

/** @brief The runs of one table's rows, from `run` on. @return the first that is another's */
template <OptimizerKind kind, typename T, typename Key, typename Offset, typename Width>
std::uint32_t update_table(const UpdatedRows<T>& memory, RunSum<T, Offset>& runs,
                           std::span<const Key> unique, std::span<const std::uint32_t> starts,
                           std::uint32_t run, std::span<T> room, const Rule<T>& rule, Width width) {
  const Lookup table = runs.enter(starts[run]);
  const auto end = static_cast<Key>(table.first_row + table.rows);
  for (; run < unique.size() && unique[run] < end; ++run) {
    VectorSum<T, Width> gradients{room.data(), width};
    runs.add_up(gradients, starts[run], starts[run + 1]);
    const RowMemory<T> of_row = memory.row(run, table, static_cast<std::int64_t>(unique[run]));
    follow_row<kind>(rule, gradients.data(), width, of_row.weights, of_row.m, of_row.v);
  }
  return run;
}

/** @brief Applies the optimizer once to each row of `unique`, with its run's summed gradient. */
template <OptimizerKind kind, typename T, typename Key, typename Offset>
void update_rows(std::span<T> weights, std::span<T> m, std::span<T> v, std::span<T> cached,
                 std::span<T> cached_m, std::span<T> cached_v, std::span<SlotState> states,
                 std::span<const std::int32_t> slots, std::span<const T> gradient,
                 std::span<const Lookup> lookups, std::span<const Offset> offsets,
                 std::span<const T> factors, std::span<const std::uint32_t> positions,
                 std::span<const std::uint32_t> bag_of, std::span<const Key> unique,
                 std::span<const std::uint32_t> starts, std::span<const std::uint32_t> count,
                 PooledShape shape, Rule<T> rule, std::size_t slot_width) {
  const SortedLookups<T, Offset> sorted{lookups, offsets, factors, positions, bag_of};
  RunSum<T, Offset> runs{sorted, gradient, shape};
  const auto memory_of = [](std::span<T> w, std::span<T> of_m, std::span<T> of_v) {
    return RowMemory<T>{w.data(), of_m.empty() ? nullptr : of_m.data(),
                        of_v.empty() ? nullptr : of_v.data()};
  };
  const UpdatedRows<T> memory{memory_of(weights, m, v), memory_of(cached, cached_m, cached_v),
                              states.data(), slots.empty() ? nullptr : slots.data(),
                              RowLayout{slot_width, state_of_row(kind) != 0}};
  std::vector<T> room(widest(lookups));
  const std::span<const Key> rows = unique.first(count[0]);
  for (std::uint32_t run = 0; run < rows.size();) {
    with_length(static_cast<std::size_t>(runs.enter(starts[run]).width), [&](auto width) {
      run = update_table<kind, T, Key>(memory, runs, rows, starts, run, std::span<T>{room}, rule,
                                       width);
    });
  }
}

/** @brief Of each value of a feature: the gradient of its factor. 0 for ids out of range. */
template <typename T, typename Id, typename Offset, typename Width>
void factor_gradients_of(const Lookup& lookup, T* out, const T* gradient, const TableRows<T>& rows,
                         std::span<const Id> ids, std::span<const Offset> offsets,
                         std::size_t batch, std::size_t stride, Width width) {
  for (std::size_t b = 0; b < batch; ++b, gradient += stride) {
    const auto begin = static_cast<std::size_t>(offsets[b]);
    const auto end = static_cast<std::size_t>(offsets[b + 1]);
    const T scale = bag_scale<T>(lookup, end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const bool there = in_range(lookup, ids[i]);
      out[i] = there ? scale * dot(gradient, rows.row(i, static_cast<std::size_t>(ids[i]) * width),
                                   width)
                     : T{0};
    }
  }
}

/** @brief Of each value: the gradient of its factor. 0 for ids out of range. */
template <typename T, typename Id, typename Offset>
void factor_gradients(std::span<T> out, std::span<const T> gradient, std::span<const T> weights,
                      std::span<const T> cached, std::span<const std::int32_t> slots,
                      std::span<const Lookup> lookups, std::span<const Id> ids,
                      std::span<const Offset> offsets, PooledShape shape, std::size_t slot_stride) {
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    const Lookup& lookup = lookups[f];
    const T* const of_feature =
        gradient.data() + shape.column + static_cast<std::size_t>(lookup.column);
    with_length(static_cast<std::size_t>(lookup.width), [&](auto width) {
      const TableRows<T> rows{weights.data() + lookup.weights, cached.data(),
                              slots.empty() ? nullptr : slots.data(), slot_stride};
      factor_gradients_of(lookup, out.data(), of_feature, rows, ids,
                          offsets.subspan(f * shape.batch), shape.batch, shape.stride, width);
    });
  }
}

}  // namespace millrace::model::host
