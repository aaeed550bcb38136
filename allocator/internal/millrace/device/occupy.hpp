#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "millrace/device/operation.hpp"

namespace millrace::cuda {

/** @brief What turns a declared cost into time, and how much of the machine a kernel takes. */
struct Machine {
  double flops = 0;             ///< per second
  double memory_bandwidth = 0;  ///< bytes per second
  int multiprocessors = 0;
  int exclusive_bytes = 0;  ///< shared memory of which one multiprocessor has not enough for two
};

/** @brief Loads the kernel, so that no launch has to wait for that. In the device's context. */
[[nodiscard]] Machine prepare_occupation(int ordinal, double flops, double memory_bandwidth);

/** @brief What the kernel was compiled for: {80, 90}. */
[[nodiscard]] std::vector<int> architectures();

/**
 * @brief The architecture of the kernel as the current device runs it: 90.
 * @throws DeviceError (not_supported) if nothing of this build runs there
 */
[[nodiscard]] int architecture_here();

/**
 * @brief Enqueues what stands in for an operation that has only views and a cost.
 *
 * Touches every view, moves as much of them as `cost.bytes` says while time lasts, and holds the
 * stream until the cost is over. Costs of flops or bytes take the whole machine: such kernels run
 * one after another. A fixed cost alone takes one small block and runs beside them.
 */
void occupy(const Operation& operation, const Machine& machine, cudaStream_t stream);

}  // namespace millrace::cuda
