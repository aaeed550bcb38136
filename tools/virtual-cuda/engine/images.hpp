#pragma once

#include <optional>
#include <vector>

namespace millrace::virtual_cuda {

/** @brief Code for one architecture in a fat binary. Architectures are major * 10 + minor. */
struct Image {
  int architecture = 0;
  bool compiled = false;  ///< machine code, for GPUs of one generation; false: PTX
};

/** @brief The versions of a kernel that `cudaFuncAttributes` reports. */
struct CodeVersions {
  int binary = 0;
  int ptx = 0;
};

/**
 * @brief The images of a fat binary that the compiler's host code registers.
 *
 * The toolkit's fatbinary_section.h declares the wrapper. The fields of the entries are not
 * documented. They follow binaries of nvcc 13.0 and what `cuobjdump --list-elf --list-ptx` prints
 * for them.
 * @return empty if `wrapper` is not a fat binary
 */
[[nodiscard]] std::vector<Image> images_of(const void* wrapper);

/**
 * @brief The code that a GPU runs: the newest machine code of its generation that is not newer than
 *        the GPU. Without such code, it is the newest PTX that is not newer, compiled for the GPU.
 * @return nothing if no image runs on this GPU
 */
[[nodiscard]] std::optional<CodeVersions> choose(const std::vector<Image>& images, int gpu);

}  // namespace millrace::virtual_cuda
