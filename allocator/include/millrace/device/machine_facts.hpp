#pragma once

#include <string>
#include <vector>

#include "millrace/device/cuda_device.hpp"

namespace millrace {

/** @brief A shared library that the program loads at run time. */
struct LibraryFacts {
  std::string name;     ///< "libnccl.so.2"
  std::string path;     ///< path of the file; "" if it was not found
  std::string version;  ///< "2.27.3"; "" if unknown
  std::string problem;  ///< why it cannot be loaded; "" if it was loaded
};

/** @brief NVIDIA's driver: a library and a kernel module, which must have the same version. */
struct DriverFacts {
  LibraryFacts library;  ///< libcuda.so.1
  int cuda = 0;          ///< the newest CUDA version it supports (12040 is 12.4); 0 without driver
  std::string module;    ///< version of the kernel module; "" if it is not loaded
};

/** @brief One GPU. Members that could not be read keep their defaults; `problem` says why. */
struct GpuFacts {
  CudaDeviceInfo info;
  CudaDeviceState state;
  std::string problem;  ///< "" if the GPU can be used
};

/** @brief Facts about this machine that Millrace needs. */
struct MachineFacts {
  CudaVersions cuda;               ///< all 0 in a build without CUDA
  std::vector<int> architectures;  ///< the architectures that this build has kernels for
  DriverFacts driver;
  std::string no_gpu;  ///< why `gpus` is empty
  std::vector<GpuFacts> gpus;
  std::vector<std::vector<bool>> peers;  ///< [from][to]: kernels on `from` can use memory of `to`
  LibraryFacts cublas;  ///< loaded by training on a GPU; in a build without CUDA only `name` is set
  LibraryFacts nccl;    ///< loaded by a process group of GPUs
};

/**
 * @brief Examines the machine. Starts a context on each GPU.
 *
 * Does not throw: the result says what is missing or broken. Works in a build without CUDA.
 */
[[nodiscard]] MachineFacts machine_facts();

}  // namespace millrace
