#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "memory/array_format.hpp"
#include "memory/memory.hpp"

namespace millrace::virtual_cuda {

/** @brief An array's format and size. An extent of 0 means that the array lacks the dimension. */
struct ArrayShape {
  ArrayFormat format;
  cudaExtent extent{};  ///< in elements; the depth of a layered array is its number of layers
  unsigned flags = 0;   ///< cudaArrayLayered and others

  [[nodiscard]] std::size_t row_bytes() const noexcept {
    return extent.width * format.element_bytes();
  }
  [[nodiscard]] std::size_t rows() const noexcept { return extent.height == 0 ? 1 : extent.height; }
  [[nodiscard]] std::size_t layers() const noexcept { return extent.depth == 0 ? 1 : extent.depth; }
  [[nodiscard]] std::size_t bytes() const noexcept { return row_bytes() * rows() * layers(); }
  /** @brief The shape of a level of a mipmapped array. Each level halves the extents. */
  [[nodiscard]] ArrayShape level(unsigned level) const noexcept;
  /** @brief Maximum number of levels of a mipmapped array of this shape. */
  [[nodiscard]] unsigned most_levels() const noexcept;
};

/**
 * @brief Whether CUDA permits arrays of this shape.
 * @param limits     properties of the GPU
 * @param mipmapped  whether the shape is for a mipmapped array
 */
[[nodiscard]] bool is_legal(const ArrayShape& shape, const cudaDeviceProp& limits, bool mipmapped);

}  // namespace millrace::virtual_cuda

/** The object of a cudaArray_t or CUarray. Rows and layers are contiguous in device memory. */
struct cudaArray {
  millrace::virtual_cuda::ArrayShape shape;
  unsigned gpu = 0;
  std::byte* address = nullptr;
  bool is_level = false;  ///< a level: its mipmapped array owns it and its memory
};

/** The object of a cudaMipmappedArray_t or CUmipmappedArray. Its levels share one allocation. */
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

  /** @brief Makes an array; null if the GPU lacks the memory. @param shape  must be legal */
  [[nodiscard]] cudaArray_t make(unsigned gpu, const ArrayShape& shape);
  /** @param levels  from 1 to `shape.most_levels()` */
  [[nodiscard]] cudaMipmappedArray_t make(unsigned gpu, const ArrayShape& shape, unsigned levels);

  /** @brief The array or level of a handle; null if `handle` is not a handle of an array. */
  [[nodiscard]] const cudaArray* find(cudaArray_const_t handle) const;
  [[nodiscard]] const cudaMipmappedArray* find(cudaMipmappedArray_const_t handle) const;

  /** @brief Frees the array, which must not be a level, and its memory. */
  void destroy(const cudaArray& array);
  void destroy(const cudaMipmappedArray& array);

 private:
  Memory& memory_;
  std::unordered_map<const void*, std::unique_ptr<cudaArray>> arrays_;
  std::unordered_map<const void*, std::unique_ptr<cudaMipmappedArray>> mipmapped_;
  std::unordered_map<const void*, const cudaArray*> levels_;
};

}  // namespace millrace::virtual_cuda
