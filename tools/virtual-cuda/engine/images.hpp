#pragma once

#include <optional>
#include <vector>

namespace millrace::virtual_cuda {

/** @brief Code for one architecture in a fat binary. Architectures are major * 10 + minor. */
struct Image {
  int architecture = 0;
  bool compiled = false;  ///< machine code, which newer generations do not run; else PTX
};

/** @brief What `cudaFuncAttributes` says of a kernel's versions. */
struct CodeVersions {
  int binary = 0;
  int ptx = 0;
};

/**
 * @brief The images of a fat binary, as the compiler's host code registers it.
 *
 * The wrapper is that of the toolkit's fatbinary_section.h. The fields of the entries were read off
 * binaries of nvcc 13.0 beside what `cuobjdump --list-elf --list-ptx` says of them.
 * @return none if this is not such a binary
 */
[[nodiscard]] std::vector<Image> images_of(const void* wrapper);

/**
 * @brief What a GPU runs: the newest machine code of its generation that is not newer than the GPU,
 *        or the newest PTX that is not, compiled for the GPU.
 * @return nothing if no image is for this GPU
 */
[[nodiscard]] std::optional<CodeVersions> choose(const std::vector<Image>& images, int gpu);

}  // namespace millrace::virtual_cuda
