#pragma once

#include <string>
#include <vector>

namespace millrace::cli {

/**
 * @brief Folders with the virtual CUDA runtime for CUDA 13 and CUDA 12, beside this program.
 * @throws UsageError if this build or installation has none
 */
[[nodiscard]] std::vector<std::string> virtual_cuda_folders();

}  // namespace millrace::cli
