#pragma once

#include <string>
#include <vector>

namespace millrace::cli {

/** @brief Where the virtual CUDA runtime is. */
struct VirtualCuda {
  std::string root;  ///< the folder with the driver, libcuda.so.1
  std::vector<std::string>
      folders;          ///< to search: those of the runtimes, CUDA 13 first, and `root`
  std::string auditor;  ///< of the loader, so that it finds these first; empty if there is none
};

/**
 * @brief Finds the virtual CUDA runtime beside this program.
 * @throws UsageError if this build or installation has none
 */
[[nodiscard]] VirtualCuda find_virtual_cuda();

/** @brief What puts a program on Millrace's allocator. */
struct Interposer {
  std::string library;  ///< to load before all others
  std::string auditor;  ///< of the loader, for what the program looks up by handle
};

/** @brief Whether this build or installation has it. */
[[nodiscard]] bool has_interposer();

/**
 * @brief Finds it beside this program.
 * @throws UsageError if this build or installation has none
 */
[[nodiscard]] Interposer find_interposer();

}  // namespace millrace::cli
