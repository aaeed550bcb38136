#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "capture/gather_arguments.hpp"
#include "capture/layout.hpp"
#include "model/blas_handle.hpp"

/// @file
/// The CUDA kernels of tracking and capture: as the host kernels of the same names. None waits for
/// the device. Key: std::uint32_t or std::uint64_t.

namespace millrace::capture::cuda {

using model::Queue;

template <typename Key>
void mark_rows(Queue queue, std::span<std::uint32_t> bits, std::span<DirtyCounts> counts,
               std::span<const Key> rows, std::span<const std::uint32_t> count, BitShape shape);
void mark_range(Queue queue, std::span<std::uint32_t> bits, std::span<DirtyCounts> counts,
                std::uint64_t first, std::uint64_t end, BitShape shape);
/** @param scratch  `collect_scratch` numbers */
template <typename Key>
void collect_rows(Queue queue, std::span<Key> rows, std::span<std::uint32_t> count,
                  std::span<std::uint32_t> scratch, std::span<std::uint32_t> bits,
                  std::span<DirtyCounts> counts, BitShape shape);
template <typename Key>
void gather_rows(Queue queue, const GatherRowsArguments<float, Key>& arguments);

void drain_slot(Queue queue, std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace millrace::capture::cuda
