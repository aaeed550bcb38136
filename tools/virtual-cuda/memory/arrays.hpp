#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "memory/array_format.hpp"
#include "memory/memory.hpp"

namespace millrace::virtual_cuda {

/** @brief What an array is made of. An extent of 0 means that the array has not that dimension. */
struct ArrayShape {
  ArrayFormat format;
  cudaExtent extent{};  ///< in elements; the depth of a layered array is its number of layers
  unsigned flags = 0;   ///< cudaArrayLayered and the like

  [[nodiscard]] std::size_t row_bytes() const noexcept {
    return extent.width * format.element_bytes();
  }
  [[nodiscard]] std::size_t rows() const noexcept { return extent.height == 0 ? 1 : extent.height; }
  [[nodiscard]] std::size_t layers() const noexcept { return extent.depth == 0 ? 1 : extent.depth; }
  [[nodiscard]] std::size_t bytes() const noexcept { return row_bytes() * rows() * layers(); }
  /** @brief The shape of a level of a mipmapped array of this shape: half as large for each. */
  [[nodiscard]] ArrayShape level(unsigned level) const noexcept;
  /** @brief The most levels that a mipmapped array of this shape has. */
  [[nodiscard]] unsigned most_levels() const noexcept;
};

/**
 * @brief Whether CUDA has arrays of this shape.
 * @param limits     of the GPU
 * @param mipmapped  whether it is that of a mipmapped array
 */
[[nodiscard]] bool is_legal(const ArrayShape& shape, const cudaDeviceProp& limits, bool mipmapped);

}  // namespace millrace::virtual_cuda

/** What a cudaArray_t and a CUarray point to. Rows and layers lie side by side in device memory. */
struct cudaArray {
  millrace::virtual_cuda::ArrayShape shape;
  unsigned gpu = 0;
  std::byte* address = nullptr;
  bool is_level = false;  ///< of a mipmapped array, which owns it and its memory
};

/** What a cudaMipmappedArray_t and a CUmipmappedArray point to. Its levels share one allocation. */
struct cudaMipmappedArray {
  millrace::virtual_cuda::ArrayShape shape;
  unsigned gpu = 0;
  std::byte* address = nullptr;
  std::vector<std::unique_ptr<cudaArray>> levels;
};

namespace millrace::virtual_cuda {

/** @brief The arrays of the process. Guarded by the engine's lock. */
class Arrays {
 public:
  explicit Arrays(Memory& memory) : memory_{memory} {}

  /** @brief Null if the GPU has no memory for it. @param shape  a legal one */
  [[nodiscard]] cudaArray_t make(unsigned gpu, const ArrayShape& shape);
  /** @param levels  from 1 to those that the shape has at most */
  [[nodiscard]] cudaMipmappedArray_t make(unsigned gpu, const ArrayShape& shape, unsigned levels);

  /** @brief The array behind a handle, or a level. Null if the handle is none of an array. */
  [[nodiscard]] const cudaArray* find(cudaArray_const_t handle) const;
  [[nodiscard]] const cudaMipmappedArray* find(cudaMipmappedArray_const_t handle) const;

  /** @brief Gives back the array, which is no level, and its memory. */
  void destroy(const cudaArray& array);
  void destroy(const cudaMipmappedArray& array);

 private:
  Memory& memory_;
  std::unordered_map<const void*, std::unique_ptr<cudaArray>> arrays_;
  std::unordered_map<const void*, std::unique_ptr<cudaMipmappedArray>> mipmapped_;
  std::unordered_map<const void*, const cudaArray*> levels_;
};

}  // namespace millrace::virtual_cuda
