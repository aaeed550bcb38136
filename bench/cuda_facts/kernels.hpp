#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::facts {

/// Loads every kernel, so that none is loaded while something is measured.
void load_kernels();

void enqueue_nothing(cudaStream_t stream);
/// A kernel of one thread that runs this long.
void enqueue_hold(cudaStream_t stream, Nanoseconds time);

/// A kernel of one thread that runs until it is opened, or for five seconds.
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

/// The device's timer, read again and again by one thread: nanoseconds.
[[nodiscard]] std::vector<std::uint64_t> timer_readings();

}  // namespace millrace::facts
