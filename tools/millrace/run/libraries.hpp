#pragma once

#include <string>
#include <vector>

namespace millrace::cli {

/** @brief Paths of the virtual CUDA runtime. */
struct VirtualCuda {
  std::string root;  ///< the folder with the driver, libcuda.so.1
  std::vector<std::string>
      folders;          ///< search path: the runtimes' folders (CUDA 13 first), then `root`
  std::string auditor;  ///< loader auditor that makes these libraries win; "" if absent
};

/**
 * @brief Finds the virtual CUDA runtime relative to this program.
 * @throws UsageError if this build or installation does not contain it
 */
[[nodiscard]] VirtualCuda find_virtual_cuda();

/** @brief The libraries that put a program on Millrace's allocator. */
struct Interposer {
  std::string library;  ///< for LD_PRELOAD
  std::string auditor;  ///< loader auditor for functions that the program looks up by handle
};

/** @brief Whether this build or installation contains the interposer. */
[[nodiscard]] bool has_interposer();

/**
 * @brief Finds the interposer relative to this program.
 * @throws UsageError if this build or installation does not contain it
 */
[[nodiscard]] Interposer find_interposer();

}  // namespace millrace::cli
