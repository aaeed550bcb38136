#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "sharding/kernels.hpp"

namespace millrace::sharding::host {

template <typename Id, typename Offset>
void split_lengths(std::span<Offset> lengths, std::span<const Id> ids,
                   std::span<const Offset> offsets, std::span<const SplitFeature> features,
                   SplitShape shape) {
  std::ranges::fill(lengths, Offset{0});
  for (std::size_t f = 0; f < features.size(); ++f) {
    for (std::size_t b = 0; b < shape.batch; ++b) {
      const std::size_t bag = static_cast<std::size_t>(features[f].key) * shape.batch + b;
      for (auto i = offsets[bag]; i < offsets[bag + 1]; ++i) {
        const std::size_t rank =
            rank_of(ids[static_cast<std::size_t>(i)], features[f].block, shape.ranks);
        ++lengths[(rank * features.size() + f) * shape.batch + b];
      }
    }
  }
}

template <typename Id, typename Offset>
void split_values(std::span<Id> out, std::span<float> out_weights,
                  std::span<const Offset> out_offsets, std::span<const Id> ids,
                  std::span<const Offset> offsets, std::span<const float> weights,
                  std::span<const SplitFeature> features, SplitShape shape) {
  for (std::size_t row = 0; row < shape.ranks * features.size(); ++row) {
    const std::size_t rank = row / features.size();
    const SplitFeature feature = features[row % features.size()];
    for (std::size_t b = 0; b < shape.batch; ++b) {
      const std::size_t bag = static_cast<std::size_t>(feature.key) * shape.batch + b;
      auto to = static_cast<std::size_t>(out_offsets[row * shape.batch + b]);
      for (auto i = static_cast<std::size_t>(offsets[bag]);
           i < static_cast<std::size_t>(offsets[bag + 1]); ++i) {
        if (rank_of(ids[i], feature.block, shape.ranks) != rank) continue;
        out[to] = static_cast<Id>(ids[i] - static_cast<Id>(rank) * static_cast<Id>(feature.block));
        if (!out_weights.empty()) out_weights[to] = weights[i];
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

[[nodiscard]] inline float mean_at(std::span<const std::int32_t> mean_of,
                                   std::span<const float> means, std::size_t column,
                                   std::size_t example, std::size_t batch) {
  if (mean_of.empty() || mean_of[column] < 0) return 1;
  return means[static_cast<std::size_t>(mean_of[column]) * batch + example];
}

inline void join_columns(std::span<float> pooled, std::span<const float> blocks,
                         std::span<const std::int32_t> first_source,
                         std::span<const ColumnSource> sources,
                         std::span<const std::int32_t> mean_of, std::span<const float> means,
                         JoinedShape shape) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t c = 0; c < shape.columns; ++c) {
      const auto first = static_cast<std::size_t>(first_source[c]);
      float sum = blocks[element_of(sources[first], b, shape.batch)];
      for (auto s = first + 1; s < static_cast<std::size_t>(first_source[c + 1]); ++s) {
        sum += blocks[element_of(sources[s], b, shape.batch)];
      }
      pooled[b * shape.stride + shape.column + c] =
          sum * mean_at(mean_of, means, c, b, shape.batch);
    }
  }
}

inline void part_columns(std::span<float> blocks, std::span<const float> pooled,
                         std::span<const std::int32_t> first_source,
                         std::span<const ColumnSource> sources,
                         std::span<const std::int32_t> mean_of, std::span<const float> means,
                         JoinedShape shape) {
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t c = 0; c < shape.columns; ++c) {
      const float value =
          pooled[b * shape.stride + shape.column + c] * mean_at(mean_of, means, c, b, shape.batch);
      for (auto s = static_cast<std::size_t>(first_source[c]);
           s < static_cast<std::size_t>(first_source[c + 1]); ++s) {
        blocks[element_of(sources[s], b, shape.batch)] = value;
      }
    }
  }
}

}  // namespace millrace::sharding::host
