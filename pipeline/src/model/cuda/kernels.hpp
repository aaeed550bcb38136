#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/pipeline/model/table_cache.hpp"
#include "model/blas_handle.hpp"
#include "model/lookup.hpp"
#include "model/optimizer_rule.hpp"
#include "model/row_places.hpp"
#include "model/shapes.hpp"

/// @file
/// The CUDA kernels: each does what the host kernel of the same name does, and takes the same
/// arguments behind the queue that it is enqueued on. None waits for the device. Sums run in a
/// fixed order, which is not always that of the host.

namespace millrace::model::cuda {

// Embeddings. Id and Offset: std::int32_t or std::int64_t; Key: their unsigned forms.
template <typename Id, typename Offset>
void look_up(Queue queue, std::span<float> pooled, std::span<BadId> bad,
             std::span<const float> weights, std::span<const float> cached,
             std::span<const std::int32_t> slots, std::span<const Lookup> lookups,
             std::span<const Id> ids, std::span<const Offset> offsets,
             std::span<const float> factors, PooledShape shape, std::size_t slot_stride);
template <typename Key, typename Id, typename Offset>
void linearise(Queue queue, std::span<Key> rows, std::span<std::uint32_t> positions,
               std::span<std::uint32_t> bag_of, std::span<const Lookup> lookups,
               std::span<const Id> ids, std::span<const Offset> offsets, std::size_t batch,
               Key none);
/** @brief Bytes of scratch that `sort_pairs` and `find_runs` of this many lookups take. */
template <typename Key>
[[nodiscard]] std::size_t sort_scratch(std::size_t count, unsigned bits);
template <typename Key>
void sort_pairs(Queue queue, std::span<Key> keys_out, std::span<std::uint32_t> values_out,
                std::span<std::byte> scratch, std::span<const Key> keys,
                std::span<const std::uint32_t> values, unsigned bits);
template <typename Key>
void find_runs(Queue queue, std::span<Key> unique, std::span<std::uint32_t> starts,
               std::span<std::uint32_t> count, std::span<std::byte> scratch,
               std::span<const Key> sorted, Key none);
template <OptimizerKind kind, typename Key, typename Offset>
void update_rows(Queue queue, std::span<float> weights, std::span<float> m, std::span<float> v,
                 std::span<float> cached, std::span<float> cached_m, std::span<float> cached_v,
                 std::span<SlotState> states, std::span<const std::int32_t> slots,
                 std::span<const float> gradient, std::span<const Lookup> lookups,
                 std::span<const Offset> offsets, std::span<const float> factors,
                 std::span<const std::uint32_t> positions, std::span<const std::uint32_t> bag_of,
                 std::span<const Key> unique, std::span<const std::uint32_t> starts,
                 std::span<const std::uint32_t> count, PooledShape shape, Rule<float> rule,
                 std::size_t slot_width);
template <typename Id, typename Offset>
void factor_gradients(Queue queue, std::span<float> out, std::span<const float> gradient,
                      std::span<const float> weights, std::span<const float> cached,
                      std::span<const std::int32_t> slots, std::span<const Lookup> lookups,
                      std::span<const Id> ids, std::span<const Offset> offsets, PooledShape shape,
                      std::size_t slot_stride);
template <typename Offset>
void position_factors(Queue queue, std::span<float> factors, std::span<const float> weights,
                      std::span<const std::int64_t> starts, std::span<const std::int64_t> places,
                      std::span<const Offset> offsets, std::span<const float> positions,
                      PositionShape shape);
template <typename Offset>
void position_factors_backward(Queue queue, std::span<float> dweights,
                               std::span<const float> dfactors,
                               std::span<const std::int64_t> starts,
                               std::span<const std::int64_t> places,
                               std::span<const Offset> offsets, std::span<const float> positions,
                               PositionShape shape);

// Cached tables.
template <typename Key, typename Id, typename Offset>
void cache_keys(Queue queue, std::span<Key> keys, std::span<std::uint32_t> positions,
                std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, CacheShape shape);
template <typename Key>
void bring_rows(Queue queue, std::span<float> cached, std::span<float> cached_m,
                std::span<float> cached_v, std::span<float> weights, std::span<float> m,
                std::span<float> v, std::span<std::uint32_t> tags, std::span<SlotState> states,
                std::span<CacheCounts> counts, std::span<RowMove> moves,
                std::span<const Lookup> lookups, std::span<const Key> unique,
                std::span<const std::uint32_t> count, CacheShape shape, RowLayout layout,
                Turn turn);
template <typename Id, typename Offset>
void locate_ids(Queue queue, std::span<std::int32_t> slots, std::span<const std::uint32_t> tags,
                std::span<const Lookup> lookups, std::span<const Id> ids,
                std::span<const Offset> offsets, std::size_t batch, CacheShape shape);
template <typename Key>
void locate_rows(Queue queue, std::span<std::int32_t> slots, std::span<const std::uint32_t> tags,
                 std::span<const Key> rows, std::span<const std::uint32_t> count, CacheShape shape);
void empty_slots(Queue queue, std::span<float> weights, std::span<float> m, std::span<float> v,
                 std::span<std::uint32_t> tags, std::span<SlotState> states,
                 std::span<const float> cached, std::span<const float> cached_m,
                 std::span<const float> cached_v, std::span<const Lookup> lookups, CacheShape shape,
                 RowLayout layout);

// Dense part.
void linear(Queue queue, std::span<float> y, std::span<const float> x,
            std::span<const float> weight, std::span<const float> bias, LinearShape shape);
void linear_backward(Queue queue, std::span<float> dx, std::span<float> dweight,
                     std::span<float> dbias, std::span<float> dy, std::span<const float> x,
                     std::span<const float> weight, std::span<const float> y, LinearShape shape);
void dot_interaction(Queue queue, std::span<float> out, std::span<const float> dense,
                     std::span<const float> pooled, DotShape shape);
void dot_interaction_backward(Queue queue, std::span<float> ddense, std::span<float> dpooled,
                              std::span<const float> dout, std::span<const float> dense,
                              std::span<const float> pooled, DotShape shape);
void concatenate(Queue queue, std::span<float> out, std::span<const float> dense,
                 std::span<const float> pooled, ConcatShape shape);
void concatenate_backward(Queue queue, std::span<float> ddense, std::span<float> dpooled,
                          std::span<const float> dout, ConcatShape shape);
void binary_cross_entropy(Queue queue, std::span<float> loss, std::span<float> dlogits,
                          std::span<const float> logits, std::span<const float> labels);
template <OptimizerKind kind>
void step(Queue queue, std::span<float> parameters, std::span<float> m, std::span<float> v,
          std::span<const float> gradients, Rule<float> rule);

// Filling, and the like.
void fill(Queue queue, std::span<float> out, float value);
void scale(Queue queue, std::span<float> values, float factor);
void fill_uniform(Queue queue, std::span<float> out, std::uint64_t stream, float bound);

}  // namespace millrace::model::cuda
