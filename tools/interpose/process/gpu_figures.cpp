#include "process/gpu_figures.hpp"

namespace millrace::interpose {

GpuFigures figures_of(Gpu& gpu) {
  GpuFigures figures;
  figures.ordinal = gpu.ordinal();
  figures.memory_bytes = gpu.memory_bytes();
  figures.available_bytes = gpu.available_bytes();
  figures.statistics = gpu.memory().statistics();
  figures.stranded = gpu.usable_by_all().stranded;
  figures.out_of_memory = gpu.out_of_memory();
  figures.own_peak = gpu.own_peak();
  figures.policy = gpu.memory().caching().policy();
  return figures;
}

}  // namespace millrace::interpose
