#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "capture/kernel_arguments.hpp"
#include "capture/layout.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"

/// @file
/// The CUDA kernels of tracking and capture. They do the same as the host kernels of the same
/// names. None waits for the device. Key: std::uint32_t or std::uint64_t.

namespace millrace::capture::cuda {

using model::Queue;

template <typename Key>
void mark_rows(Queue queue, const MarkRowsArguments<Key>& arguments);
void mark_range(Queue queue, const MarkRangeArguments& arguments);
template <typename Key>
void collect_rows(Queue queue, const CollectRowsArguments<Key>& arguments);
template <typename Key>
void gather_rows(Queue queue, const GatherRowsArguments<float, Key>& arguments);

void drain_slot(Queue queue, std::span<std::byte> to, std::span<const std::byte> from);

}  // namespace millrace::capture::cuda
