#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/pipeline/kernels/blas_handle.hpp"
#include "model/cache_arguments.hpp"
#include "model/dense_arguments.hpp"
#include "model/embedding_arguments.hpp"
#include "model/shapes.hpp"
#include "model/sort_arguments.hpp"

/// @file
/// The CUDA kernels. Each does the same as the host kernel of its name and takes the same
/// arguments, after the queue on which it is enqueued. None waits for the device. Sums are added in
/// a fixed order, which is not always that of the host.

namespace millrace::model::cuda {

// Embeddings. Id and Offset: std::int32_t or std::int64_t; Key: their unsigned forms.
template <typename Id, typename Offset>
void look_up(Queue queue, const LookUpArguments<float, Id, Offset>& arguments);
template <typename Key, typename Id, typename Offset>
void linearise(Queue queue, const LineariseArguments<Key, Id, Offset>& arguments);
/**
 * @brief Returns the bytes of scratch that `sort_pairs` and `find_runs` need for this many lookups.
 */
template <typename Key>
[[nodiscard]] std::size_t sort_scratch(std::size_t count, unsigned bits);
template <typename Key>
void sort_pairs(Queue queue, const SortPairsArguments<Key>& arguments);
template <typename Key>
void find_runs(Queue queue, const FindRunsArguments<Key>& arguments);
template <typename Key, typename Offset>
void update_rows(Queue queue, const UpdateRowsArguments<float, Key, Offset>& arguments);
template <typename Id, typename Offset>
void factor_gradients(Queue queue, const FactorGradientsArguments<float, Id, Offset>& arguments);
template <typename Offset>
void position_factors(Queue queue, const PositionFactorsArguments<float, Offset>& arguments);
template <typename Offset>
void position_factors_backward(Queue queue,
                               const PositionFactorsBackwardArguments<float, Offset>& arguments);

// Cached tables.
template <typename Key, typename Id, typename Offset>
void cache_keys(Queue queue, const CacheKeysArguments<Key, Id, Offset>& arguments);
template <typename Key>
void bring_rows(Queue queue, const BringRowsArguments<float, Key>& arguments);
template <typename Id, typename Offset>
void locate_ids(Queue queue, const LocateIdsArguments<Id, Offset>& arguments);
template <typename Key>
void locate_rows(Queue queue, const LocateRowsArguments<Key>& arguments);
void empty_slots(Queue queue, const EmptySlotsArguments<float>& arguments);

// Dense part.
void linear(Queue queue, const LinearArguments<float>& arguments);
void linear_backward(Queue queue, const LinearBackwardArguments<float>& arguments);
void dot_interaction(Queue queue, const DotInteractionArguments<float>& arguments);
void dot_interaction_backward(Queue queue, const DotInteractionBackwardArguments<float>& arguments);
void concatenate(Queue queue, const ConcatenateArguments<float>& arguments);
void concatenate_backward(Queue queue, const ConcatenateBackwardArguments<float>& arguments);
void binary_cross_entropy(Queue queue, const BinaryCrossEntropyArguments<float>& arguments);
void step(Queue queue, const StepArguments<float>& arguments);

// Elementwise operations.
void fill(Queue queue, std::span<float> out, float value);
void scale(Queue queue, std::span<float> values, float factor);
void fill_uniform(Queue queue, std::span<float> out, std::uint64_t stream, float bound);

}  // namespace millrace::model::cuda
