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

/// Bytes per second that a device-to-device cudaMemcpyAsync of 1 GiB reads and writes. Measured
/// once.
[[nodiscard]] double copy_rate();

/// A launch to measure.
struct Measured {
  double bytes = 0;  ///< bytes that the launch must read and write
  /// Enqueues the launch. The number cycles through inputs, so that the previous launch did not
  /// leave this input in a cache.
  std::function<void(Queue, std::size_t)> enqueue;
};

/// Measures launches with events. Reports GB_per_s and of_copy, the share of `copy_rate()`.
void measure(benchmark::State& state, const Measured& measured);

/// Registers a benchmark with a fixed number of launches.
void register_kernel(const std::string& name, std::function<void(benchmark::State&)> body);

/// Fills the array with numbers from -bound to bound. They are the same in each run.
void fill_with_numbers(const DeviceArray<float>& array, float bound = 1);

void register_embeddings();
void register_gathers();
void register_dense();

}  // namespace millrace::bench
