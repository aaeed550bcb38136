#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sharding/kernels.hpp"

namespace millrace::sharding::host {

/*
 * Memory layouts:
 * - A batch is key-major: bag (key, b) has number key * batch + b.
 * - A split batch is [ranks x features x batch]. The part of one rank is contiguous and key-major,
 *   so it can be sent as it is and received as a batch.
 * - Pooled blocks lie one after another, each [batch x columns of the block] (`element_of`).
 * - Pooled rows are [batch x stride]. A part of `columns` columns begins at `column`.
 *
 * Each loop visits a bag in the batch's order and writes from the bag's offset on. Therefore the
 * ids of a bag keep their order on every rank, and a lookup adds their rows in the same order on
 * each run. The CUDA kernels do the same: one thread for each bag. `join_columns` adds the parts of
 * several ranks in the order of the column map, not in the order of their arrival. Floating-point
 * sums depend on the order; fixed orders make them equal bit for bit.
 */

template <typename Id, typename Offset>
void split_lengths(const SplitLengthsArguments<Id, Offset>& arguments) {
  const auto& [lengths, ids, bags] = arguments;
  std::ranges::fill(std::span<Offset>{lengths}, Offset{0});
  for (std::size_t f = 0; f < bags.features.size(); ++f) {
    const SplitFeature& feature = bags.features[f];
    for (std::size_t b = 0; b < bags.batch; ++b) {
      const std::size_t bag = static_cast<std::size_t>(feature.key) * bags.batch + b;
      for (auto i = bags.offsets[bag]; i < bags.offsets[bag + 1]; ++i) {
        const std::size_t rank =
            rank_of(ids[static_cast<std::size_t>(i)], feature.block, bags.ranks);
        ++lengths[(rank * bags.features.size() + f) * bags.batch + b];
      }
    }
  }
}

template <typename Id, typename Offset>
void split_values(const SplitValuesArguments<Id, Offset>& arguments) {
  const auto& [split_ids, split_weights, split_offsets, ids, weights, bags] = arguments;
  for (std::size_t row = 0; row < bags.ranks * bags.features.size(); ++row) {
    const std::size_t rank = row / bags.features.size();
    const SplitFeature feature = bags.features[row % bags.features.size()];
    for (std::size_t b = 0; b < bags.batch; ++b) {
      const std::size_t bag = static_cast<std::size_t>(feature.key) * bags.batch + b;
      auto to = static_cast<std::size_t>(split_offsets[row * bags.batch + b]);
      for (auto i = static_cast<std::size_t>(bags.offsets[bag]);
           i < static_cast<std::size_t>(bags.offsets[bag + 1]); ++i) {
        if (rank_of(ids[i], feature.block, bags.ranks) != rank) continue;
        split_ids[to] =
            static_cast<Id>(ids[i] - static_cast<Id>(rank) * static_cast<Id>(feature.block));
        if (!split_weights.empty()) split_weights[to] = weights[i];
        ++to;
      }
    }
  }
}

template <typename Offset>
void count_split(std::span<std::int64_t> counts, std::span<const Offset> offsets,
                 std::size_t batch) {
  for (std::size_t row = 0; row < counts.size(); ++row) {
    counts[row] = offsets[(row + 1) * batch] - offsets[row * batch];
  }
}

template <typename Offset>
void bag_positions(std::span<float> positions, std::span<const Offset> offsets) {
  for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
    for (Offset i = offsets[bag]; i < offsets[bag + 1]; ++i) {
      positions[static_cast<std::size_t>(i)] = static_cast<float>(i - offsets[bag]);
    }
  }
}

[[nodiscard]] inline std::size_t element_of(const ColumnSource& source, std::size_t example,
                                            std::size_t batch) {
  return batch * static_cast<std::size_t>(source.columns_before) +
         example * static_cast<std::size_t>(source.columns) +
         static_cast<std::size_t>(source.column);
}

template <typename Offset>
void bag_means(std::span<float> means, std::span<const Offset> offsets, std::size_t first) {
  for (std::size_t b = 0; b < means.size(); ++b) {
    const auto ids = offsets[first + b + 1] - offsets[first + b];
    means[b] = ids == 0 ? 0.0F : 1 / static_cast<float>(ids);
  }
}

[[nodiscard]] inline float mean_at(const ColumnMap& columns, std::size_t column,
                                   std::size_t example, std::size_t batch) {
  if (columns.mean_of.empty() || columns.mean_of[column] < 0) return 1;
  return columns.means[static_cast<std::size_t>(columns.mean_of[column]) * batch + example];
}

inline void join_columns(const JoinColumnsArguments& arguments) {
  const auto& [pooled, blocks, columns, shape] = arguments;
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t c = 0; c < shape.columns; ++c) {
      const auto first = static_cast<std::size_t>(columns.first_source[c]);
      const auto end = static_cast<std::size_t>(columns.first_source[c + 1]);
      float sum = blocks[element_of(columns.sources[first], b, shape.batch)];
      for (auto s = first + 1; s < end; ++s) {
        sum += blocks[element_of(columns.sources[s], b, shape.batch)];
      }
      pooled[b * shape.stride + shape.column + c] = sum * mean_at(columns, c, b, shape.batch);
    }
  }
}

inline void part_columns(const PartColumnsArguments& arguments) {
  const auto& [blocks, pooled, columns, shape] = arguments;
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t c = 0; c < shape.columns; ++c) {
      const float value =
          pooled[b * shape.stride + shape.column + c] * mean_at(columns, c, b, shape.batch);
      const auto end = static_cast<std::size_t>(columns.first_source[c + 1]);
      for (auto s = static_cast<std::size_t>(columns.first_source[c]); s < end; ++s) {
        blocks[element_of(columns.sources[s], b, shape.batch)] = value;
      }
    }
  }
}

}  // namespace millrace::sharding::host
