#pragma once

#include <cstddef>

#include "millrace/memory/policy.hpp"
#include "millrace/memory/statistics.hpp"
#include "millrace/observe/trace/torch_snapshot.hpp"
#include "process/gpu.hpp"

namespace millrace::interpose {

/** @brief The report's figures for the memory of one GPU, at the end or at a reset. */
struct GpuFigures {
  int ordinal = 0;
  bool was_reset = false;  ///< cudaDeviceReset ended this memory
  std::size_t memory_bytes = 0;
  std::size_t available_bytes = 0;  ///< what if: bytes available to Millrace
  MemoryStatistics statistics;
  std::size_t stranded = 0;  ///< free bytes that some stream could not use
  Gpu::OutOfMemory out_of_memory;
  std::size_t own_peak = 0;  ///< what if: peak of the program's own allocators
  Policy policy;
};

[[nodiscard]] GpuFigures figures_of(Gpu& gpu);

/** @brief Memory that cudaDeviceReset ended. */
struct EndedMemory {
  GpuFigures figures;
  trace::TorchSnapshot snapshot;  ///< empty unless the run writes one
};

}  // namespace millrace::interpose
