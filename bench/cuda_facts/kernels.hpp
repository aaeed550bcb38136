#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::facts {

/// Loads every kernel in advance, so that none is loaded during a measurement.
void load_kernels();

void enqueue_nothing(cudaStream_t stream);
/// Enqueues a kernel of one thread that runs for `time`.
void enqueue_hold(cudaStream_t stream, Nanoseconds time);

/// A kernel of one thread that runs until `open`, but at most five seconds.
class KernelGate {
 public:
  explicit KernelGate(cudaStream_t stream);
  ~KernelGate() { open(); }
  KernelGate(const KernelGate&) = delete;
  KernelGate& operator=(const KernelGate&) = delete;
  void open();

 private:
  volatile int* flag_;
};

/// Consecutive readings of the device's timer by one thread, in nanoseconds.
[[nodiscard]] std::vector<std::uint64_t> timer_readings();

}  // namespace millrace::facts
