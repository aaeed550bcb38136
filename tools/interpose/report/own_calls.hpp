#pragma once

#include <cstddef>

#include "process/gpu.hpp"

namespace millrace::interpose {

/**
 * @brief What the program's own calls of cudaMalloc and cudaMallocAsync would have reserved, in
 *        bytes: the peak, on the model of the driver that VirtualDevice has (profile h200).
 *
 * The driver's pool gives freed memory to another stream when an event orders the two, or when it
 * finds the free complete. How soon that is depends on the GPU: the two figures hold if all work is
 * complete at once, and if none is before a call of the program's waits for it.
 */
struct OwnCalls {
  std::size_t least = 0;
  std::size_t most = 0;
  std::size_t left_out = 0;  ///< calls beyond Log::kMost, which are not in the figures
};

/** @throws DeviceError if the requests do not fit into the modelled GPU */
[[nodiscard]] OwnCalls model_own_calls(const Gpu& gpu);

}  // namespace millrace::interpose
