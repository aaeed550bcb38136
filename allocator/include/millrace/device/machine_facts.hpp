#pragma once

#include <string>
#include <vector>

#include "millrace/device/cuda_device.hpp"

namespace millrace {

/** @brief A shared library that is looked for when the program runs. */
struct LibraryFacts {
  std::string name;     ///< "libnccl.so.2"
  std::string path;     ///< of the file that was found; "" if there is none
  std::string version;  ///< "2.27.3"; "" if it does not say
  std::string problem;  ///< why it can not be loaded; "" if it was
};

/** @brief NVIDIA's driver: a library, and a module of the kernel that has to be of its version. */
struct DriverFacts {
  LibraryFacts library;  ///< libcuda.so.1
  int cuda = 0;          ///< the newest CUDA that it serves: 12040 is 12.4; 0 without it
  std::string module;    ///< version of the kernel's module; "" if none is loaded
};

/** @brief One GPU. What could not be learnt of it keeps its default, and `problem` says why. */
struct GpuFacts {
  CudaDeviceInfo info;
  CudaDeviceState state;
  std::string problem;  ///< "" if the GPU can be used
};

/** @brief What this machine has, as far as Millrace cares. */
struct MachineFacts {
  CudaVersions cuda;               ///< all 0 in a build without CUDA
  std::vector<int> architectures;  ///< that this build has kernels for
  DriverFacts driver;
  std::string no_gpu;  ///< why `gpus` is empty
  std::vector<GpuFacts> gpus;
  std::vector<std::vector<bool>> peers;  ///< [from][to]: kernels there can use memory here
  LibraryFacts cublas;  ///< that training on a GPU loads; with a name only in a build without CUDA
  LibraryFacts nccl;    ///< that a process group of GPUs loads
};

/**
 * @brief Looks, and starts a context on each GPU to do so; never fails: what is missing or broken
 *        is what it tells. Works in a build without CUDA.
 */
[[nodiscard]] MachineFacts machine_facts();

}  // namespace millrace
