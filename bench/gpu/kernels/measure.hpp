#pragma once

#include <benchmark/benchmark.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"
#include "millrace/pipeline/kernels/blas_handle.hpp"

namespace millrace::bench {

using model::Queue;

/// Bytes a second that a device-to-device cudaMemcpyAsync of 1 GiB reads and writes. Measured once.
[[nodiscard]] double copy_rate();

/// One launch to be measured.
struct Measured {
  double bytes = 0;  ///< that it has to read and write
  /// Enqueues the launch. The number cycles through inputs, so that none is found in a cache only
  /// because the launch before left it there.
  std::function<void(Queue, std::size_t)> enqueue;
};

/// Times launches by events and reports GB_per_s and of_copy, the share of `copy_rate()`.
void measure(benchmark::State& state, const Measured& measured);

/// A benchmark of a fixed number of launches.
void register_kernel(const std::string& name, std::function<void(benchmark::State&)> body);

/// Numbers between -bound and bound, the same at each run.
void fill_with_numbers(const DeviceArray<float>& array, float bound = 1);

void register_embeddings();
void register_gathers();
void register_dense();

}  // namespace millrace::bench
