#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/embedding_arguments.hpp"
#include "model/host/vector.hpp"
#include "model/sort_arguments.hpp"

/// @file
/// Host kernels of the embeddings. Reductions run in the order of the batch's values.

namespace millrace::model::host {

template <typename Id>
[[nodiscard]] bool in_range(const Lookup& lookup, Id id) {
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) <
         static_cast<std::uint64_t>(lookup.rows);
}

/** @brief Returns the factor of the gradients of a bag's ids, in addition to their own factors. */
template <typename T>
[[nodiscard]] T bag_scale(const Lookup& lookup, std::size_t length) {
  return lookup.mean != 0 && length != 0 ? T{1} / static_cast<T>(length) : T{1};
}

/** @brief Pools the rows of a feature's bags. The first id out of range is stored in `bad`. */
template <typename T, typename Id, typename Offset, typename Width>
void look_up_feature(const LookUpArguments<T, Id, Offset>& arguments, std::size_t feature,
                     Width width) {
  const BagLayout<Offset> bags = arguments.bags;
  const TableWeights<T> tables = arguments.tables;
  const ArrayView<const Id> ids = arguments.ids;
  const ArrayView<const T> factors = arguments.factors;
  const Lookup lookup = bags.lookups[feature];
  const auto table = static_cast<std::size_t>(lookup.weights);
  BadId& bad = arguments.bad[0];
  T* out = arguments.pooled.row(0, lookup);
  const std::size_t stride = arguments.pooled.stride;
  std::size_t end = bags.begin(feature * bags.batch);
  for (std::size_t b = 0; b < bags.batch; ++b, out += stride) {
    const std::size_t begin = end;
    end = bags.end(feature * bags.batch + b);
    VectorSum<T, Width> sum{out, width};
    for (std::size_t i = begin; i < end; ++i) {
      const Id id = ids[i];
      if (!in_range(lookup, id)) [[unlikely]] {
        if (bad.lookup == BadId::kNone) bad = {i, feature, static_cast<std::int64_t>(id)};
        continue;
      }
      const T* row = tables.row(i, table + static_cast<std::size_t>(id) * width);
      if (factors.empty()) {
        sum.add(row);
      } else {
        sum.add_scaled(row, factors[i]);
      }
    }
    if (lookup.mean != 0 && end - begin > 1) sum.scale(bag_scale<T>(lookup, end - begin));
    sum.store();
  }
}

template <typename T, typename Id, typename Offset>
void look_up(const LookUpArguments<T, Id, Offset>& arguments) {
  const auto lookups = arguments.bags.lookups;
  if (arguments.bags.batch == 0) return;  // the matrix has no first row
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    with_length(static_cast<std::size_t>(lookups[f].width),
                [&](auto width) { look_up_feature(arguments, f, width); });
  }
}

template <typename Key, typename Id, typename Offset>
void linearise(const LineariseArguments<Key, Id, Offset>& to) {
  const BagLayout<Offset> bags = to.bags;
  for (std::size_t f = 0; f < bags.lookups.size(); ++f) {
    const Lookup lookup = bags.lookups[f];
    for (std::size_t bag = f * bags.batch; bag < (f + 1) * bags.batch; ++bag) {
      const std::size_t end = bags.end(bag);
      for (std::size_t i = bags.begin(bag); i < end; ++i) {
        const Id id = to.ids[i];
        to.rows[i] = in_range(lookup, id)
                         ? static_cast<Key>(lookup.first_row + static_cast<std::int64_t>(id))
                         : to.none;
        to.positions[i] = static_cast<std::uint32_t>(i);
        to.bag_of[i] = static_cast<std::uint32_t>(bag);
      }
    }
  }
}

template <typename Key>
void find_runs(const FindRunsArguments<Key>& to) {
  const std::span<const Key> sorted = to.sorted;
  std::uint32_t runs = 0;
  std::size_t i = 0;
  while (i < sorted.size() && sorted[i] != to.none) {
    const Key row = sorted[i];
    to.unique[runs] = row;
    to.starts[runs++] = static_cast<std::uint32_t>(i);
    while (i < sorted.size() && sorted[i] == row) ++i;
  }
  to.starts[runs] = static_cast<std::uint32_t>(i);
  to.count[0] = runs;
}

[[nodiscard]] inline std::size_t widest(ArrayView<const Lookup> lookups) {
  std::int32_t widest = 0;
  for (std::size_t f = 0; f < lookups.size(); ++f) widest = std::max(widest, lookups[f].width);
  return static_cast<std::size_t>(widest);
}

/** @brief Numbers that are not negative, of 4 or 8 bytes. Kernels with it are compiled once. */
class NumberView {
 public:
  template <typename Number>
  explicit NumberView(ArrayView<const Number> numbers)
      : numbers_(numbers.data()), wide_(sizeof(Number) == sizeof(std::uint64_t)) {
    static_assert(sizeof(Number) == sizeof(std::uint32_t) ||
                  sizeof(Number) == sizeof(std::uint64_t));
  }
  [[nodiscard]] std::uint64_t operator[](std::size_t i) const {
    return wide_ ? static_cast<const std::uint64_t*>(numbers_)[i]
                 : static_cast<const std::uint32_t*>(numbers_)[i];
  }

 private:
  const void* numbers_;
  bool wide_;
};

/** @brief Adds the gradients of runs of ids, in the order of each run. */
template <typename T>
class RunSum {
 public:
  template <typename Key, typename Offset>
  explicit RunSum(const UpdateRowsArguments<T, Key, Offset>& arguments)
      : gradient_(arguments.gradient),
        lookups_(arguments.bags.lookups),
        offsets_(arguments.bags.offsets),
        factors_(arguments.factors),
        positions_(arguments.sorted.positions),
        bag_of_(arguments.sorted.bag_of),
        batch_(arguments.bags.batch) {}

  /** @brief Returns the table of a run's row, according to its first id. */
  const Lookup& enter(std::size_t begin) {
    const std::uint32_t bag = bag_of_[positions_[begin]];
    if (!inside(bag)) enter_feature(bag);
    return *lookup_;
  }

  template <typename Sum>
  [[gnu::always_inline]] void add_up(Sum& sum, std::size_t begin, std::size_t end) {
    for (std::size_t j = begin; j < end; ++j) {
      const std::uint32_t position = positions_[j];
      const std::size_t bag = bag_of_[position];
      if (!inside(bag)) [[unlikely]]
        enter_feature(bag);
      const T* row = of_feature_ + (bag - first_bag_) * gradient_.stride;
      if (plain_) {
        sum.add(row);
      } else {
        const T factor = factors_.empty() ? T{1} : factors_[position];
        sum.add_scaled(row, factor * bag_scale<T>(*lookup_, offsets_[bag + 1] - offsets_[bag]));
      }
    }
  }

 private:
  [[nodiscard]] bool inside(std::size_t bag) const { return bag - first_bag_ < bags_; }
  void enter_feature(std::size_t bag) {
    const std::size_t feature = bag / batch_;
    lookup_ = &lookups_[feature];
    bags_ = batch_;
    first_bag_ = feature * bags_;
    of_feature_ = gradient_.row(0, *lookup_);
    plain_ = lookup_->mean == 0 && factors_.empty();
  }

  const PooledPart<const T> gradient_;
  const ArrayView<const Lookup> lookups_;
  const NumberView offsets_;
  const ArrayView<const T> factors_;
  const ArrayView<const std::uint32_t> positions_, bag_of_;
  const std::size_t batch_;  ///< bags of each feature
  const Lookup* lookup_ = nullptr;
  const T* of_feature_ = nullptr;  ///< gradient of the feature for the first example
  std::size_t first_bag_ = 0, bags_ = 0;
  bool plain_ = false;
};

/** @brief Applies the optimizer to a row. Moments: null if the optimizer does not keep them. */
template <typename Optimizer, typename T, typename Width>
[[gnu::always_inline]] inline void follow_row(const Rule<T>& rule, const T* __restrict gradient,
                                              Width width, T* __restrict weights,
                                              T* __restrict first, T* __restrict second) {
  if constexpr (Optimizer::by_row) {
    const T squares = dot(gradient, gradient, width);
    const T rate = Optimizer::row_rate(rule, squares, static_cast<T>(std::size_t{width}), *first);
    for_lanes(width, [&](std::size_t d) { weights[d] -= rate * gradient[d]; });
  } else {
    for_lanes(width, [&](std::size_t d) {
      Optimizer::follow(rule, gradient[d], weights[d], Optimizer::keeps_first ? first + d : nullptr,
                        Optimizer::keeps_second ? second + d : nullptr);
    });
  }
}

/** @brief What an update reads and writes, apart from the sums of gradients. */
template <typename T>
struct RowUpdates {
  UpdatedTables<T> tables;
  Rule<T> rule;
  NumberView rows;  ///< row of each run
  ArrayView<const std::uint32_t> starts;
  std::uint32_t runs = 0;
  std::span<T> room;  ///< for the sum of a run
};

/**
 * @brief Updates the runs of one table's rows, from `run` on.
 *
 * It does not depend on the types of keys and offsets, because it is compiled for each optimizer
 * and width.
 *
 * @return the first run of another table
 */
template <typename Optimizer, typename T, typename Width>
std::uint32_t update_table(const RowUpdates<T>& updates, RunSum<T>& sums, std::uint32_t run,
                           Width width) {
  // Copies: stores into rows could change what a reference refers to, as far as the compiler knows.
  const auto [tables, rule, rows, starts, runs, room] = updates;
  const Lookup table = sums.enter(starts[run]);
  const auto end = static_cast<std::uint64_t>(table.first_row + table.rows);
  for (; run < runs && rows[run] < end; ++run) {
    VectorSum<T, Width> gradients{room.data(), width};
    sums.add_up(gradients, starts[run], starts[run + 1]);
    tables.mark_changed(run);
    const RowPointers<T> row = tables.row(run, table, static_cast<std::int64_t>(rows[run]));
    follow_row<Optimizer>(rule, gradients.data(), width, row.weights, row.first_moment,
                          row.second_moment);
  }
  return run;
}

/** @brief Updates the runs of all tables' rows. */
template <typename T>
void update_tables(const RowUpdates<T>& updates, RunSum<T> sums) {
  with_optimizer(updates.rule.kind, [&]<typename Optimizer>(Optimizer) {
    for (std::uint32_t run = 0; run < updates.runs;) {
      const Lookup& table = sums.enter(updates.starts[run]);
      with_length(static_cast<std::size_t>(table.width),
                  [&](auto width) { run = update_table<Optimizer>(updates, sums, run, width); });
    }
  });
}

template <typename T, typename Key, typename Offset>
void update_rows(const UpdateRowsArguments<T, Key, Offset>& arguments) {
  std::vector<T> room(widest(arguments.bags.lookups));
  update_tables<T>({.tables = arguments.tables,
                    .rule = arguments.rule,
                    .rows = NumberView{arguments.sorted.rows},
                    .starts = arguments.sorted.starts,
                    .runs = arguments.sorted.count[0],
                    .room = room},
                   RunSum<T>{arguments});
}

template <typename T, typename Id, typename Offset, typename Width>
void factor_gradients_of(const FactorGradientsArguments<T, Id, Offset>& arguments,
                         std::size_t feature, Width width) {
  const BagLayout<Offset>& bags = arguments.bags;
  const Lookup& lookup = bags.lookups[feature];
  const auto table = static_cast<std::size_t>(lookup.weights);
  for (std::size_t b = 0; b < bags.batch; ++b) {
    const T* const gradient = arguments.pooled_gradient.row(b, lookup);
    const std::size_t begin = bags.begin(feature * bags.batch + b);
    const std::size_t end = bags.end(feature * bags.batch + b);
    const T scale = bag_scale<T>(lookup, end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const Id id = arguments.ids[i];
      const std::size_t at = table + static_cast<std::size_t>(id) * width;
      arguments.gradients[i] =
          in_range(lookup, id) ? scale * dot(gradient, arguments.tables.row(i, at), width) : T{0};
    }
  }
}

template <typename T, typename Id, typename Offset>
void factor_gradients(const FactorGradientsArguments<T, Id, Offset>& arguments) {
  const auto lookups = arguments.bags.lookups;
  for (std::size_t f = 0; f < lookups.size(); ++f) {
    with_length(static_cast<std::size_t>(lookups[f].width),
                [&](auto width) { factor_gradients_of(arguments, f, width); });
  }
}

}  // namespace millrace::model::host
